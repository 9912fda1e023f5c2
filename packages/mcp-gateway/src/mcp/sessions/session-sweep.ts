import type { Clock } from '../../internal/clock.ts'
import type { EffectiveSessionLimits } from './session-limits.ts'

export interface SessionSweepOptions {
  readonly clock: Clock
  /** As they are now. */
  readonly limits: () => EffectiveSessionLimits
  /** Looks for sessions that have ended. @returns whether there are any left to look at */
  readonly look: () => boolean
}

/** How often sessions are looked through for those that have ended, at most and at least. */
const SWEEP_MS = { most: 1000, least: 60_000 }

/** One timer for all sessions, while there are any. */
export class SessionSweep {
  readonly #options: SessionSweepOptions
  #undo: (() => void) | undefined

  constructor(options: SessionSweepOptions) {
    this.#options = options
  }

  begin(): void {
    if (this.#undo) return
    const { clock, limits, look } = this.#options
    const { idleTtlMs, absoluteTtlMs } = limits()
    const ttlMs = Math.min(idleTtlMs, absoluteTtlMs)
    const everyMs = Math.min(SWEEP_MS.least, Math.max(SWEEP_MS.most, ttlMs / 4))
    this.#undo = clock.after(everyMs, () => {
      this.#undo = undefined
      if (look()) this.begin()
    })
  }

  stop(): void {
    this.#undo?.()
    this.#undo = undefined
  }
}
