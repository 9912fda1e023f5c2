import { ReadableStream } from 'node:stream/web'

/** What a stream must know of the run that it goes on in. */
export interface RunHold {
  /** Runs a part of the stream in the run, whoever asks for it. */
  enter<T>(call: () => T): T
  /** Told of everything that the stream gives, and of what it fails with. */
  onOutcome(outcome: unknown): void
  /** Idempotent, never rejects. */
  end(): Promise<void>
}

export function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value
}

/**
 * The same stream, with its run: generators run in the context of whoever pulls, so the run is entered
 * anew for each step; and it ends with the stream, whether that ends, fails or is left by `break`.
 */
export function scopedStream(
  stream: AsyncIterable<unknown>,
  hold: RunHold,
): AsyncGenerator | ReadableStream<unknown> {
  return stream instanceof ReadableStream
    ? scopedReadable(stream, hold)
    : scopedIterable(stream, hold)
}

function scopedIterable(source: AsyncIterable<unknown>, hold: RunHold): AsyncGenerator {
  let iterator: AsyncIterator<unknown> | undefined
  const step = async (
    take: (iterator: AsyncIterator<unknown>) => PromiseLike<IteratorResult<unknown>>,
  ): Promise<IteratorResult<unknown>> => {
    const result = await inHold(hold, async () => {
      iterator ??= source[Symbol.asyncIterator]()
      return take(iterator)
    })
    if (result.done === true) await hold.end()
    else hold.onOutcome(result.value)
    return result
  }
  const generator: AsyncGenerator = {
    next: (...sent) => step((inner) => inner.next(...sent)),
    return: (value) =>
      step(async (inner) => (await inner.return?.(value)) ?? { done: true, value: await value }),
    throw: (error: unknown) =>
      step(async (inner) => {
        if (inner.throw !== undefined) return inner.throw(error)
        await inner.return?.()
        throw error
      }),
    [Symbol.asyncIterator]: () => generator,
    [Symbol.asyncDispose]: async () => {
      await generator.return(undefined)
    },
  }
  return generator
}

function scopedReadable(source: ReadableStream<unknown>, hold: RunHold): ReadableStream<unknown> {
  const reader = source.getReader()
  return new ReadableStream<unknown>(
    {
      async pull(controller) {
        const { done, value } = await inHold(hold, () => reader.read())
        if (!done) {
          hold.onOutcome(value)
          controller.enqueue(value)
          return
        }
        await hold.end()
        controller.close()
      },
      async cancel(reason) {
        try {
          // By its own `cancel()`, which may do more than a reader's: LangGraph's aborts the graph.
          await hold.enter(() => {
            reader.releaseLock()
            return source.cancel(reason)
          })
        } finally {
          await hold.end()
        }
      },
    },
    { highWaterMark: 0 }, // nothing is pulled before somebody reads
  )
}

async function inHold<T>(hold: RunHold, call: () => Promise<T>): Promise<T> {
  try {
    return await hold.enter(call)
  } catch (error) {
    hold.onOutcome(error)
    await hold.end()
    throw error
  }
}
