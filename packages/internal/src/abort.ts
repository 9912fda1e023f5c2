/**
 * Settles as `promise` does, or rejects with the reason of `signal` as soon as that aborts. The work behind
 * `promise` goes on; its late result is dropped.
 */
export function untilAborted<Result>(
  promise: Promise<Result>,
  signal: AbortSignal | undefined,
): Promise<Result> {
  if (signal === undefined) return promise
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(abortReason(signal))
    if (signal.aborted) onAbort()
    else signal.addEventListener('abort', onAbort, { once: true })
    const settle =
      <Value>(end: (value: Value) => void) =>
      (value: Value): void => {
        signal.removeEventListener('abort', onAbort)
        end(value)
      }
    promise.then(settle(resolve), settle(reject))
  })
}

/** Returns the reason of an aborted signal as an error: a caller may abort with any value. */
export function abortReason(signal: AbortSignal): Error {
  const reason: unknown = signal.reason
  return reason instanceof Error ? reason : new Error(String(reason))
}

/** Longest time of a timer, 24.8 days: a longer one would end at once. */
export const LONGEST_MS: number = 2 ** 31 - 1

/** Settles as `promise` does, or after `ms` with what `onLate` returns or throws. The late result is dropped. */
export async function within<Result, Late>(
  promise: Promise<Result>,
  ms: number,
  onLate: () => Late,
): Promise<Result | Late> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, Math.min(ms, LONGEST_MS))
  }).then(onLate)
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}

/** Returns whether `promise` was fulfilled within `ms`. Rejects if `promise` rejects within that time. */
export function fulfilledWithin(promise: Promise<unknown>, ms: number): Promise<boolean> {
  return within(
    promise.then(() => true),
    ms,
    () => false,
  )
}
