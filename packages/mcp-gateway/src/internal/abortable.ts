/**
 * The same values, as they are pulled; ends when the signal aborts, also while it waits for the next one. Holds
 * nothing of what it passed on: only the read in flight knows of the signal.
 *
 * @throws the reason of the signal; what the values throw
 */
export async function* abortable<Value>(
  values: AsyncIterable<Value>,
  signal: AbortSignal,
): AsyncGenerator<Value> {
  signal.throwIfAborted()
  const iterator = values[Symbol.asyncIterator]()
  let refuse: ((reason: unknown) => void) | undefined
  const onAbort = (): void => refuse?.(signal.reason)
  signal.addEventListener('abort', onAbort, { once: true })
  let hasEnded = false
  try {
    for (;;) {
      // One promise for each read. A race with a promise that outlives the reads would keep all that they gave.
      const next = await new Promise<IteratorResult<Value>>((resolve, reject) => {
        signal.throwIfAborted()
        refuse = reject
        iterator.next().then(resolve, reject)
      })
      refuse = undefined
      if (next.done) {
        hasEnded = true
        return
      }
      yield next.value
    }
  } finally {
    signal.removeEventListener('abort', onAbort)
    // Not waited for: a source that hangs would hang its end, too.
    if (!hasEnded) void Promise.resolve(iterator.return?.()).catch(() => {})
  }
}
