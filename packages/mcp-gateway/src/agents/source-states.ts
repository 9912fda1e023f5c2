import type { AgentSource } from './agent-source.ts'

/** How a source is doing. */
export interface SourceStatus {
  readonly name: string
  readonly state: 'starting' | 'started' | 'failed'
  /** Why it failed, or what of it was refused last. */
  readonly reason?: string | undefined
}

/** The sources of a registry, in the order in which they came. */
export class SourceStates {
  readonly #all = new Map<AgentSource, SourceStatus>()

  add(source: AgentSource): void {
    this.#all.set(source, { name: source.name, state: 'starting' })
  }

  has(source: AgentSource): boolean {
    return this.#all.has(source)
  }

  update(source: AgentSource, change: Partial<Omit<SourceStatus, 'name'>>): void {
    const status = this.#all.get(source)
    if (status !== undefined) this.#all.set(source, { ...status, ...change })
  }

  remove(source: AgentSource): boolean {
    return this.#all.delete(source)
  }

  sources(): readonly AgentSource[] {
    return [...this.#all.keys()]
  }

  statuses(): readonly SourceStatus[] {
    return [...this.#all.values()]
  }
}
