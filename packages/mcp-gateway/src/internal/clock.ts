/** Time, as the gateway sees it: tests bring their own. */
export interface Clock {
  /** Milliseconds since 1970. */
  now(): number
  /** Calls back once after so long. @returns the undo, which may be called at any time */
  after(ms: number, callback: () => void): () => void
}

/** What a timer of Node holds, 24.8 days: it takes more for nothing. */
const MAX_TIMER_MS = 2_147_483_647

/** The time of this machine. Its timers keep no process alive. */
export const systemClock: Clock = {
  now: () => Date.now(),
  after: (ms, callback) => {
    const timer = setTimeout(callback, Math.min(ms, MAX_TIMER_MS))
    timer.unref()
    return () => clearTimeout(timer)
  },
}
