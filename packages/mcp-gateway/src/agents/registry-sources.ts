import type { Clock } from '../internal/clock.ts'
import { withDeadline } from '../internal/timers.ts'
import type { AgentListener, AgentSource } from './agent.ts'

/** How a source is doing. */
export interface SourceStatus {
  readonly name: string
  readonly state: 'starting' | 'started' | 'failed'
  /** Why it failed, or what of it was refused last. */
  readonly reason?: string | undefined
}

export interface RegistrySourcesOptions {
  readonly clock: Clock
  readonly onWarning: (message: string, cause?: unknown) => void
}

/** Longer, and whoever waits for a first look goes on without it. */
const FIRST_LOOK_MS = 30_000
const CLOSE_MS = 10_000

/** The sources of a registry, in the order in which they came. One that fails or hangs stops no other. */
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

  /** Resolves after its first look, or when that takes too long: what it finds later counts all the same. Never rejects. */
  async start(source: AgentSource, listener: AgentListener): Promise<void> {
    const started = this.#firstLook(source, listener)
    try {
      const what = `The first look of ${source.name}`
      await withDeadline(started, { clock: this.#clock, ms: FIRST_LOOK_MS, what })
    } catch (error) {
      this.#onWarning('A source takes long to start', error)
    }
  }

  /** Something that it told cannot be taken; all else of it can. */
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
  async #firstLook(source: AgentSource, listener: AgentListener): Promise<void> {
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
