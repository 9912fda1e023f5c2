import { Deadline } from '../deadline.ts'
import { settledOrAborted } from '../settled-or-aborted.ts'

/** Waits for a promise that cannot fail, no longer than a time. Says whether it came in time. */
export async function settledWithin(promise: Promise<unknown>, ms: number): Promise<boolean> {
  using deadline = new Deadline(ms)
  try {
    await settledOrAborted(promise, deadline.signal)
    return true
  } catch {
    return false
  }
}
