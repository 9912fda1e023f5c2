/** Source of time. Tests use their own. */
export interface Clock {
  /** Milliseconds since 1970. */
  now(): number
  /** Calls back once after `ms`. Returns a function that cancels it, at any time. */
  after(ms: number, callback: () => void): () => void
}

/** Resolves after `ms`. */
export function sleep(clock: Clock, ms: number): Promise<void> {
  return new Promise((resolve) => {
    clock.after(ms, resolve)
  })
}

/** Longest time of a timer of Node, 24.8 days. Node takes a longer time for 1 ms. */
export const MAX_TIMER_MS = 2_147_483_647

/** Time of this machine. Its timers do not keep the process alive. */
export const systemClock: Clock = {
  now: () => Date.now(),
  after: (ms, callback) => {
    const timer = setTimeout(callback, Math.min(ms, MAX_TIMER_MS))
    timer.unref()
    return () => clearTimeout(timer)
  },
}
