/**
 * Waits for a promise, but no longer than until `signal` aborts. What becomes of the promise after that
 * is nobody's business any more, also when it rejects.
 *
 * @throws the reason of `signal`
 */
export function settledOrAborted<T>(
  result: Promise<T>,
  signal: AbortSignal | undefined,
): Promise<T> {
  if (signal === undefined) return result
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(reasonOf(signal))
    if (signal.aborted) onAbort()
    else signal.addEventListener('abort', onAbort, { once: true })
    result
      .then(resolve, reject)
      .finally(() => signal.removeEventListener('abort', onAbort))
      .catch(() => {}) // neither of the two above can fail
  })
}

/** An abort's reason may be anything; a rejection should be an error. */
export function reasonOf(signal: AbortSignal): Error {
  const reason: unknown = signal.reason
  return reason instanceof Error ? reason : new Error(String(reason))
}
