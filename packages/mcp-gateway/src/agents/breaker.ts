import type { Clock } from '../clock.ts'

/** How a run ended, as far as it tells whether its agent works. `unknown`: somebody gave up. */
export type RunEnd = 'worked' | 'failed' | 'unknown'

type State =
  | { readonly phase: 'closed'; readonly failures: number }
  | { readonly phase: 'open'; readonly untilMs: number }
  /** One run is let through, to see. */
  | { readonly phase: 'probing' }

export interface BreakerOptions {
  readonly clock: Clock
  /** In a row, before nothing is let through. @default 5 */
  readonly maxFailures?: number | undefined
  /** How long nothing is. @default 30_000 */
  readonly openMs?: number | undefined
}

/** Spares an agent that fails, and its callers the wait. */
export class Breaker {
  readonly #clock: Clock
  readonly #maxFailures: number
  readonly #openMs: number
  #state: State = { phase: 'closed', failures: 0 }

  constructor({ clock, maxFailures = 5, openMs = 30_000 }: BreakerOptions) {
    this.#clock = clock
    this.#maxFailures = maxFailures
    this.#openMs = openMs
  }

  get isClosed(): boolean {
    return this.#state.phase === 'closed'
  }

  /** @returns 0 if a run may start, which is then to be told to `settle`; else the milliseconds until one may */
  enter(): number {
    switch (this.#state.phase) {
      case 'closed':
        return 0
      case 'probing':
        return this.#openMs
      case 'open': {
        const waitMs = this.#state.untilMs - this.#clock.now()
        if (waitMs > 0) return waitMs
        this.#state = { phase: 'probing' }
        return 0
      }
    }
  }

  settle(end: RunEnd): void {
    this.#state = this.#after(end)
  }

  #after(end: RunEnd): State {
    const state = this.#state
    if (end === 'worked') return { phase: 'closed', failures: 0 }
    // Whoever gave up during the probe has shown nothing: the next one may probe.
    if (end === 'unknown') {
      return state.phase === 'probing' ? { phase: 'open', untilMs: this.#clock.now() } : state
    }
    // A run that began before it opened tells nothing new.
    if (state.phase === 'open') return state
    const failures = state.phase === 'closed' ? state.failures + 1 : this.#maxFailures
    return failures < this.#maxFailures
      ? { phase: 'closed', failures }
      : { phase: 'open', untilMs: this.#clock.now() + this.#openMs }
  }
}
