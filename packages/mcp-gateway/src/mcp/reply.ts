import { EventStream } from './event-stream.ts'
import { RPC_ERROR } from './json-rpc.ts'

/** The headers of a request, as in `Headers`: `get()` joins the values of a repeated header. */
export interface RequestHeaders {
  get(name: string): string | null
  has(name: string): boolean
  /** Names, in lower case, with their values. */
  entries(): Iterable<[string, string]>
}

/** An HTTP request, from any server. */
export interface HttpExchange {
  readonly method: string
  readonly url: string
  readonly headers: RequestHeaders
  readonly signal: AbortSignal
  /** The same as a `Request`. It has a body only if the body is read as a stream (see `HttpRoute.isStreamed`). */
  readonly request: Request
  /** IP address of the client, for limits. `undefined`: not known. */
  address: string | undefined
  /** Reads the whole body. Never rejects. */
  readBody(): Promise<BodyText>
  /** Returns whether there is memory for a response to this account (see `accountOf()`). Is called before the request is executed. */
  readonly hasRoom: (account: string) => boolean
}

/** The body of a request as text, or the reason why there is none. */
export type BodyText =
  | { readonly ok: true; readonly text: string }
  | { readonly ok: false; readonly why: 'too-large' | 'broken' | 'slow' }

export interface Reply {
  readonly status: number
  /** Headers, in lower case, that are added to those of the body. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** JSON text, a stream of events, or the response of a library. */
  readonly body?: string | EventStream | Response | undefined
}

export function toReply(response: Response): Reply {
  return { status: response.status, body: response }
}

const EVENT_STREAM_HEADERS = {
  'content-type': 'text/event-stream',
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
}

export function headersOf({ body, headers }: Reply): Record<string, string> {
  if (body === undefined) return { ...headers }
  if (typeof body === 'string') return { 'content-type': 'application/json', ...headers }
  if (body instanceof EventStream) return { ...EVENT_STREAM_HEADERS, ...headers }
  return { ...Object.fromEntries(body.headers), ...headers }
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
