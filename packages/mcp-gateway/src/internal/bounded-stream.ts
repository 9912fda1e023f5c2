import type { Clock } from './clock.ts'
import { GatewayError } from '../errors.ts'

export interface BoundedStreamOptions {
  readonly maxBytes: number
  /** Between two pieces. */
  readonly idleTimeoutMs: number
  readonly clock: Clock
  /** What went wrong, for whoever reads. */
  explain(error: unknown): unknown
  /** Called once or more, however it ended: closes the connection behind. */
  onEnd(): void
}

/** Bytes as they come, until they are too many or fail to come. Nothing is read ahead. */
export function boundedStream(
  source: AsyncIterable<Uint8Array>,
  options: BoundedStreamOptions,
): ReadableStream<Uint8Array> {
  const { maxBytes, idleTimeoutMs, clock } = options
  const pieces = source[Symbol.asyncIterator]()
  let size = 0
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const cancelTimer = clock.after(idleTimeoutMs, () => {
          controller.error(
            new GatewayError('UNAVAILABLE', `Nothing more came within ${idleTimeoutMs} ms`),
          )
          options.onEnd()
        })
        try {
          const { done, value } = await pieces.next()
          if (done) {
            options.onEnd()
            controller.close()
            return
          }
          size += value.byteLength
          if (size > maxBytes) {
            throw new GatewayError('LIMIT', `An answer is longer than ${maxBytes} bytes`)
          }
          controller.enqueue(value)
        } catch (error) {
          controller.error(options.explain(error))
          options.onEnd()
        } finally {
          cancelTimer()
        }
      },
      cancel: () => options.onEnd(),
    },
    { highWaterMark: 0 },
  )
}
