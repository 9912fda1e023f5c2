/** Time, as the gateway sees it: tests bring their own. */
export interface Clock {
  /** Milliseconds since 1970. */
  now(): number
  /** Calls back once after so long. @returns the undo, which may be called at any time */
  after(ms: number, callback: () => void): () => void
}

/** The time of this machine. Its timers keep no process alive. */
export const systemClock: Clock = {
  now: () => Date.now(),
  after: (ms, callback) => {
    const timer = setTimeout(callback, ms)
    timer.unref()
    return () => clearTimeout(timer)
  },
}
