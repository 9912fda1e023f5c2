import type { Clock } from '../internal/clock.ts'
import { RunFailure } from '../agents/run-failure.ts'

export interface RunLimitsOptions {
  readonly clock: Clock
  /** Whole run. */
  readonly timeoutMs: number
  /** Without a word from the agent; 0: no such limit. */
  readonly idleTimeoutMs: number
  /** The first limit that is reached, once. */
  readonly onReached: (failure: RunFailure) => void
}

/** The two time limits of a run. */
export class RunLimits {
  readonly #options: RunLimitsOptions
  readonly #stopTotal: () => void
  #stopIdle: () => void = nothing
  #lastWord: number
  #isOver = false

  constructor(options: RunLimitsOptions) {
    this.#options = options
    this.#lastWord = options.clock.now()
    this.#stopTotal = options.clock.after(options.timeoutMs, () => {
      this.#reach('timeout', `It took longer than ${seconds(options.timeoutMs)}.`)
    })
    if (options.idleTimeoutMs > 0) this.#watchIdle(options.idleTimeoutMs)
  }

  /** The agent said something. */
  touch(): void {
    this.#lastWord = this.#options.clock.now()
  }

  stop(): void {
    this.#isOver = true
    this.#stopTotal()
    this.#stopIdle()
  }

  /** One timer however often the agent speaks: it looks at the time of the last word, and waits for the rest. */
  #watchIdle(ms: number): void {
    this.#stopIdle = this.#options.clock.after(ms, () => {
      const { clock, idleTimeoutMs } = this.#options
      const left = this.#lastWord + idleTimeoutMs - clock.now()
      if (left > 0) this.#watchIdle(left)
      else this.#reach('idle_timeout', `It was silent for ${seconds(idleTimeoutMs)}.`)
    })
  }

  #reach(reason: 'timeout' | 'idle_timeout', message: string): void {
    if (this.#isOver) return
    this.stop()
    this.#options.onReached(new RunFailure(reason, message))
  }
}

function seconds(ms: number): string {
  return ms < 1000 ? `${ms} ms` : `${ms / 1000} s`
}

function nothing(): void {}
