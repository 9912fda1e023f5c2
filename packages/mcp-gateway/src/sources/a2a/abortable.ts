/**
 * The same values; ends when the signal aborts, also while it waits for the next one, which is then left to itself.
 *
 * @throws the reason of the signal; what the values throw
 */
export async function* abortable<Value>(
  values: AsyncIterable<Value>,
  signal: AbortSignal,
): AsyncGenerator<Value> {
  const iterator = values[Symbol.asyncIterator]()
  try {
    for (;;) {
      const next = await unlessAborted(iterator.next(), signal)
      if (next.done) return
      yield next.value
    }
  } finally {
    // Not waited for: a source that hangs would hang its end, too.
    void Promise.resolve(iterator.return?.()).catch(() => undefined)
  }
}

function unlessAborted<Value>(promise: Promise<Value>, signal: AbortSignal): Promise<Value> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason)
    if (signal.aborted) onAbort()
    else signal.addEventListener('abort', onAbort, { once: true })
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
  })
}
