import type { Clock } from './clock.ts'
import { GatewayError } from '../errors.ts'
import { SlowReader, WAITING_BYTES } from './slow-reader.ts'

export interface WatchedBodyOptions {
  /** Of the request: some servers only abort it, and leave the body alone. @default none */
  readonly signal?: AbortSignal | undefined
  /** @default systemClock */
  readonly clock?: Clock | undefined
}

/**
 * The same answer; tells once when its body came to its end, or was given up before. It is read ahead: whoever takes
 * it too slowly loses it.
 */
export function watchedBody(
  response: Response,
  onEnd: (end: 'complete' | 'lost') => void,
  { signal, clock }: WatchedBodyOptions = {},
): Response {
  if (response.body === null) {
    onEnd('complete')
    return response
  }
  const reader = response.body.getReader()
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined
  const slow = new SlowReader({
    waiting: () => WAITING_BYTES - (controller?.desiredSize ?? WAITING_BYTES),
    onSlow: () => {
      lose()
      controller?.error(new GatewayError('LIMIT', 'A stream of events was read too slowly'))
    },
    clock,
  })
  let hasEnded = false
  const end = (how: 'complete' | 'lost'): void => {
    if (hasEnded) return
    hasEnded = true
    slow.end()
    signal?.removeEventListener('abort', lose)
    onEnd(how)
  }
  const lose = (): void => {
    end('lost')
    void reader.cancel().catch(() => undefined)
  }
  if (signal?.aborted) lose()
  else signal?.addEventListener('abort', lose)
  const readAhead = async (to: ReadableStreamDefaultController<Uint8Array>): Promise<void> => {
    try {
      for (;;) {
        const { done, value } = await reader.read()
        if (hasEnded) return
        if (done) break
        to.enqueue(value)
        slow.wrote()
      }
      end('complete')
      to.close()
    } catch (error) {
      end('lost')
      to.error(error)
    }
  }
  const body = new ReadableStream<Uint8Array>(
    {
      start: (each) => {
        controller = each
        void readAhead(each)
      },
      cancel: lose,
    },
    new ByteLengthQueuingStrategy({ highWaterMark: WAITING_BYTES }),
  )
  return new Response(body, { status: response.status, headers: response.headers })
}

/** Whether an answer is a stream of events. */
export function isEventStream({ headers }: Response): boolean {
  return headers.get('content-type')?.startsWith('text/event-stream') ?? false
}
