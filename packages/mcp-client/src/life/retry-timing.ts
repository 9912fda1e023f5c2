import { setTimeout as sleep } from 'node:timers/promises'

/** How the time passes before something is tried again. */
export interface RetryTiming {
  /** @throws if `signal` aborts before so many milliseconds have passed */
  readonly wait: (ms: number, signal: AbortSignal) => Promise<unknown>
  /** 0 … 1. Spreads the clients that have all lost the same server. */
  readonly random: () => number
}

export const systemTiming: RetryTiming = {
  wait: (ms, signal) => sleep(ms, undefined, { signal }),
  random: Math.random,
}

const FIRST_MS = 100
const MAX_MS = 5000

/**
 * How long to wait before a session is opened again, after so many were lost without a success between
 * them: the first time not at all, then half to all of 100 ms, doubled each time, up to 5 s.
 */
export function recoveryDelayMs(lossesInRow: number, { random }: RetryTiming): number {
  if (lossesInRow < 2) return 0
  const ms = Math.min(FIRST_MS * 2 ** (lossesInRow - 2), MAX_MS)
  return ms * (0.5 + random() / 2)
}
