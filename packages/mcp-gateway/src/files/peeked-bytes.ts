/** The beginning of a file, and all of it. */
export interface PeekedBytes {
  /** At least so many bytes as were asked for, if there are so many. */
  readonly head: Uint8Array
  /** From the start. To be read once. */
  readonly bytes: AsyncIterable<Uint8Array>
  /** Lets go of what is read from, for a file that is not read to its end. */
  end(): void
}

/** Reads the first bytes of a file without losing them. @throws what the file throws */
export async function peekedBytes(
  bytes: AsyncIterable<Uint8Array>,
  count: number,
): Promise<PeekedBytes> {
  const iterator = bytes[Symbol.asyncIterator]()
  const first: Uint8Array[] = []
  let size = 0
  while (size < count) {
    const next = await iterator.next()
    if (next.done) break
    first.push(next.value)
    size += next.value.byteLength
  }
  return {
    head: Buffer.concat(first),
    bytes: resumed(first, iterator),
    // Not waited for: a source that hangs would hang its end, too.
    end: () => void Promise.resolve(iterator.return?.()).catch(() => {}),
  }
}

async function* resumed(
  first: readonly Uint8Array[],
  iterator: AsyncIterator<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  yield* first
  for (;;) {
    const next = await iterator.next()
    if (next.done) return
    yield next.value
  }
}
