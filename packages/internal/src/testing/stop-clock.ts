import { onTestFinished, vi } from 'vitest'

/** From now on, only `vi.advanceTimersByTime()` moves the timers of the test: none ends early on a busy machine. */
export function stopClock(...others: readonly 'performance'[]): void {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', ...others] })
  onTestFinished(() => void vi.useRealTimers())
}
