import type { Clock } from '../internal/clock.ts'
import { withDeadline } from '../internal/timers.ts'
import type { AgentListener, AgentSource } from './agent.ts'

/** State of a source. */
export interface SourceStatus {
  readonly name: string
  readonly state: 'starting' | 'started' | 'failed'
  /** Why the source failed, or why its last agent was refused. */
  readonly reason?: string | undefined
}

export interface RegistrySourcesOptions {
  readonly clock: Clock
  readonly onWarning: (message: string, cause?: unknown) => void
}

/** Longest wait for the first search of a source. */
const FIRST_SEARCH_MS = 30_000
const CLOSE_MS = 10_000

/** The sources of a registry, in the order in which they were added. A source that fails or hangs stops no other. */
export class RegistrySources {
  readonly #clock: Clock
  readonly #onWarning: (message: string, cause?: unknown) => void
  readonly #all = new Map<AgentSource, SourceStatus>()

  constructor({ clock, onWarning }: RegistrySourcesOptions) {
    this.#clock = clock
    this.#onWarning = onWarning
  }

  add(source: AgentSource): void {
    this.#all.set(source, { name: source.name, state: 'starting' })
  }

  has(source: AgentSource): boolean {
    return this.#all.has(source)
  }

  remove(source: AgentSource): boolean {
    return this.#all.delete(source)
  }

  hasFailed(source: AgentSource): boolean {
    return this.#all.get(source)?.state === 'failed'
  }

  sources(): readonly AgentSource[] {
    return [...this.#all.keys()]
  }

  statuses(): readonly SourceStatus[] {
    return [...this.#all.values()]
  }

  /** Resolves after the first search of a source, or after its time limit: later agents are reported too. Never rejects. */
  async start(source: AgentSource, listener: AgentListener): Promise<void> {
    const started = this.#firstSearch(source, listener)
    try {
      const what = `The first search of ${source.name}`
      await withDeadline(started, { clock: this.#clock, ms: FIRST_SEARCH_MS, what })
    } catch (error) {
      this.#onWarning('A source takes long to start', error)
    }
  }

  /** Notes that one report of a source cannot be used. */
  refuse(source: AgentSource, reason: string): void {
    this.#update(source, { reason })
    this.#onWarning(`${source.name}: ${reason}`)
  }

  /** Never rejects. */
  async close(source: AgentSource): Promise<void> {
    try {
      const what = `Closing ${source.name}`
      await withDeadline(source.close(), { clock: this.#clock, ms: CLOSE_MS, what })
    } catch (error) {
      this.#onWarning(`${source.name} could not be closed`, error)
    }
  }

  /** Never rejects. */
  async #firstSearch(source: AgentSource, listener: AgentListener): Promise<void> {
    try {
      await source.start(listener)
      this.#update(source, { state: 'started' })
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      this.#update(source, { state: 'failed', reason })
      this.#onWarning(`${source.name} could not be started: ${reason}`, error)
    }
  }

  #update(source: AgentSource, change: Partial<Omit<SourceStatus, 'name'>>): void {
    const status = this.#all.get(source)
    if (status !== undefined) this.#all.set(source, { ...status, ...change })
  }
}
