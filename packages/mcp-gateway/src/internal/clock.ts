import { LONGEST_MS } from '@x/internal'

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

/** Time of this machine. Its timers do not keep the process alive. */
export const systemClock: Clock = {
  now: () => Date.now(),
  after: (ms, callback) => {
    const timer = setTimeout(callback, Math.min(ms, LONGEST_MS))
    timer.unref()
    return () => clearTimeout(timer)
  },
}
