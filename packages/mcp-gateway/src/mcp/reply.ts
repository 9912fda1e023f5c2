import type { HttpAnswer } from '../internal/exchange.ts'
import { EventStream } from './event-stream.ts'
import { RPC_ERROR } from './json-rpc.ts'

/** The response to a request: JSON text or a stream of events. */
export interface Reply {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>> | undefined
  readonly body?: string | EventStream | undefined
}

const STREAM_HEADERS = {
  'content-type': 'text/event-stream',
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
}

/** Returns a reply in the form that HTTP servers send. */
export function toAnswer(reply: Reply): HttpAnswer {
  const { body } = reply
  if (body instanceof EventStream) {
    return {
      response: toResponse(reply),
      onEnd: (end) => {
        if (end === 'lost') body.lose()
      },
    }
  }
  return reply.headers === undefined && typeof body === 'string'
    ? new TextAnswer(reply.status, body)
    : { response: toResponse(reply) }
}

/** Returns a JSON-RPC error about a request whose id is not known. */
export function refused(
  status: number,
  code: number,
  ...[message, headers]: [message: string, headers?: Reply['headers']]
): Reply {
  const body = JSON.stringify({ jsonrpc: '2.0', error: { code, message }, id: null })
  return { status, headers, body }
}

/** Returns an error after which the client sends its request again, at the earliest after `waitMs`. */
export function tryLater(status: number, message: string, waitMs: number): Reply {
  const headers = { 'retry-after': String(Math.ceil(waitMs / 1000)) }
  return refused(status, RPC_ERROR.refused, message, headers)
}

/** JSON whose `Response` is made only for servers that need one. */
class TextAnswer implements HttpAnswer {
  readonly status: number
  readonly json: string
  #response: Response | undefined

  constructor(status: number, json: string) {
    this.status = status
    this.json = json
  }

  get response(): Response {
    this.#response ??= toResponse({ status: this.status, body: this.json })
    return this.#response
  }
}

function toResponse({ status, headers, body }: Reply): Response {
  if (!(body instanceof EventStream)) {
    const type = body === undefined ? undefined : { 'content-type': 'application/json' }
    return new Response(body ?? null, { status, headers: { ...type, ...headers } })
  }
  const encoder = new TextEncoder()
  const bytes = new ReadableStream<Uint8Array>({
    start: (controller) =>
      body.connect({
        write: (text) => controller.enqueue(encoder.encode(text)),
        end: () => controller.close(),
      }),
    cancel: () => body.lose(),
  })
  return new Response(bytes, { status, headers: { ...STREAM_HEADERS, ...headers } })
}
