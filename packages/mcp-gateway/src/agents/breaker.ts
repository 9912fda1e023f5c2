import type { BreakerSettings } from '../options.ts'
import type { Clock } from '../internal/clock.ts'

/** How a run ended, as far as it tells whether its agent works. `unknown`: the caller gave up, or made an error. */
export type RunEnd = 'worked' | 'failed' | 'unknown'

type State =
  | { readonly phase: 'closed'; readonly failures: number }
  | { readonly phase: 'open'; readonly untilMs: number }
  /** One run was let through. Its end decides. */
  | { readonly phase: 'probing' }

interface CircuitOptions {
  readonly clock: Clock
  readonly maxFailures: number
  readonly openMs: number
}

const CLOSED: State = { phase: 'closed', failures: 0 }

/** Opens after failures in a row; closes again when a run that it let through works. */
class Circuit {
  readonly #options: CircuitOptions
  #state: State = CLOSED

  constructor(options: CircuitOptions) {
    this.#options = options
  }

  get isClosed(): boolean {
    return this.#state.phase === 'closed'
  }

  /** Milliseconds until a run may start; 0: now. */
  get waitMs(): number {
    const state = this.#state
    if (state.phase === 'closed') return 0
    if (state.phase === 'probing') return this.#options.openMs
    return Math.max(0, state.untilMs - this.#options.clock.now())
  }

  /** A run starts. Only while `waitMs` is 0. */
  enter(): void {
    if (this.#state.phase === 'open') this.#state = { phase: 'probing' }
  }

  settle(end: RunEnd): void {
    this.#state = this.#after(end)
  }

  #after(end: RunEnd): State {
    const { clock, maxFailures, openMs } = this.#options
    const state = this.#state
    if (end === 'worked') return CLOSED
    // The probe showed nothing: the next run may probe.
    if (end === 'unknown') {
      return state.phase === 'probing' ? { phase: 'open', untilMs: clock.now() } : state
    }
    // A run that began before the circuit opened tells nothing new.
    if (state.phase === 'open') return state
    const failures = state.phase === 'closed' ? state.failures + 1 : maxFailures
    return failures < maxFailures
      ? { phase: 'closed', failures }
      : { phase: 'open', untilMs: clock.now() + openMs }
  }
}

/** Callers whose failures one agent remembers. */
const MAX_CALLERS = 1000

/**
 * Refuses runs of an agent that keeps failing, which spares its callers the wait. Failures are counted for each
 * caller apart, so that the calls of one caller cannot disable the agent for the others: runs of all are refused
 * only after several callers reached the limit and nobody had a success.
 */
export class Breaker {
  readonly #options: CircuitOptions
  readonly #minCallers: number
  /** Of callers whose last run failed. */
  readonly #callers = new Map<string, Circuit>()
  /** Callers that reached the limit since the last success of anybody. */
  readonly #failing = new Set<string>()
  readonly #all: Circuit

  constructor(clock: Clock, { maxFailures, minCallers, openMs }: BreakerSettings) {
    this.#options = { clock, openMs, maxFailures: maxFailures === 0 ? Infinity : maxFailures }
    this.#minCallers = minCallers
    this.#all = new Circuit({ clock, openMs, maxFailures: 1 })
  }

  /** Callers reached the limit, and nobody had a success since. */
  get isFailing(): boolean {
    return this.#failing.size > 0
  }

  /** @returns 0 if a run may start, whose end `settle` has to be told; else the milliseconds until one may */
  enter(caller: string): number {
    const own = this.#callers.get(caller)
    const waitMs = Math.max(this.#all.waitMs, own?.waitMs ?? 0)
    if (waitMs > 0) return waitMs
    this.#all.enter()
    own?.enter()
    return 0
  }

  settle(caller: string, end: RunEnd): void {
    if (end === 'worked') this.#worked(caller)
    else if (end === 'failed') this.#failed(caller)
    else {
      this.#all.settle(end)
      this.#callers.get(caller)?.settle(end)
    }
  }

  #worked(caller: string): void {
    // Where all were refused, the agent was the cause of each caller's failures, and it works again.
    if (!this.#all.isClosed) this.#callers.clear()
    this.#callers.delete(caller)
    this.#failing.clear()
    this.#all.settle('worked')
  }

  #failed(caller: string): void {
    const own = this.#circuitOf(caller)
    own.settle('failed')
    if (!own.isClosed) this.#failing.add(caller)
    if (!this.#all.isClosed || this.#failing.size >= this.#minCallers) this.#all.settle('failed')
  }

  #circuitOf(caller: string): Circuit {
    const known = this.#callers.get(caller)
    if (known !== undefined) return known
    const made = new Circuit(this.#options)
    this.#callers.set(caller, made)
    const [oldest] = this.#callers.keys()
    if (this.#callers.size > MAX_CALLERS && oldest !== undefined) {
      this.#callers.delete(oldest)
      this.#failing.delete(oldest)
    }
    return made
  }
}
