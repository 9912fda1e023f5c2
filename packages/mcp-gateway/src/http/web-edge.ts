import { GatewayError } from '../errors.ts'
import { systemClock, type Clock } from '../internal/clock.ts'
import { readBounded } from '../internal/guarded-fetch.ts'
import { EventStream } from '../mcp/event-stream.ts'
import { headersOf, type BodyText, type HttpExchange, type Reply } from '../mcp/reply.ts'

/** Returns the exchange of a `Request`. */
export function webExchange(request: Request, maxBodyBytes: number): HttpExchange {
  const { method, url, headers, signal } = request
  return {
    method,
    url,
    headers,
    signal,
    request,
    address: undefined,
    readBody: () => readWebBody(request, maxBodyBytes),
    hasRoom: () => true,
  }
}

/** Reads the whole body of a request. Keeps no bytes beyond the limit. Never rejects. */
export async function readWebBody(request: Request, maxBytes: number): Promise<BodyText> {
  if (Number(request.headers.get('content-length')) > maxBytes) {
    return { ok: false, why: 'too-large' }
  }
  try {
    return { ok: true, text: (await readBounded(request, maxBytes)).toString('utf8') }
  } catch (error) {
    return { ok: false, why: GatewayError.is(error) ? 'too-large' : 'broken' }
  }
}

/**
 * Returns a reply as a `Response`.
 *
 * @param signal signal of the request: some servers abort it, and do not cancel the body
 */
export function toResponse(reply: Reply, signal?: AbortSignal, clock?: Clock): Response {
  const { body, status } = reply
  if (body instanceof EventStream) {
    return new Response(toWebStream(body, signal, clock), { status, headers: headersOf(reply) })
  }
  if (body === undefined || typeof body === 'string') {
    return new Response(body ?? null, { status, headers: headersOf(reply) })
  }
  const added = Object.entries(reply.headers ?? {})
  if (added.length === 0) return body
  const headers = new Headers(body.headers)
  for (const [name, value] of added) headers.set(name, value)
  return new Response(body.body, { status, headers })
}

/** Bytes of events that may wait for a reader for any time. */
const WAITING_BYTES = 1_048_576
/** Time for which more bytes may wait: a long answer comes at once, and is read in time. */
const SLOW_MS = 30_000

/** Events come whether they are read or not: a reader that is too slow loses the stream. */
function toWebStream(
  events: EventStream,
  signal: AbortSignal | undefined,
  clock: Clock = systemClock,
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder()
  let stopTimer: (() => void) | undefined
  const lose = (): void => events.lose()
  events.onClose(() => {
    stopTimer?.()
    signal?.removeEventListener('abort', lose)
  })
  if (signal?.aborted) lose()
  else signal?.addEventListener('abort', lose)
  const start = (controller: ReadableStreamDefaultController<Uint8Array>): void => {
    // Bytes that wait beyond the limit make the desired size negative.
    const isBehind = (): boolean => (controller.desiredSize ?? 0) < 0
    const check = (): void => {
      stopTimer = undefined
      if (!isBehind()) return
      lose()
      controller.error(new GatewayError('LIMIT', 'The stream of events was read too slowly'))
    }
    events.connect({
      write: (text) => {
        controller.enqueue(encoder.encode(text))
        if (isBehind()) stopTimer ??= clock.after(SLOW_MS, check)
      },
      writable: () => undefined,
      end: (onSent) => {
        controller.close()
        onSent()
      },
    })
  }
  const strategy = new ByteLengthQueuingStrategy({ highWaterMark: WAITING_BYTES })
  return new ReadableStream({ start, cancel: lose }, strategy)
}
