import { handlerDispatcher } from '@x/internal/testing/undici'
import type { Dispatcher } from 'undici'

export const URL_OF_SERVER = 'http://server.test/mcp'

/** One received request. */
export interface Seen {
  readonly httpMethod: string
  /** `POST tools/call`, `GET`, … */
  readonly what: string
  readonly id?: string | number | undefined
  readonly params?: Record<string, unknown> | undefined
  readonly headers: Headers
  readonly sessionId: string | undefined
  /** Aborted when the client closes the exchange. */
  readonly signal: AbortSignal
}

export interface ScriptedServer {
  readonly dispatcher: Dispatcher
  readonly seen: readonly Seen[]
  /** The `what` of all requests, in order. */
  readonly wire: string[]
  count(what: string): number
  /** Resolves with the n-th request of a kind. */
  waitFor(what: string, nth?: number): Promise<Seen>
}

/** Answers a request, or leaves it to the default answer. */
export type Script = (seen: Seen) => Response | Promise<Response> | undefined

/** Answers of all kinds of requests, or by their `what`. */
type Scripts = Script | Readonly<Record<string, Script>>

interface Waiter {
  readonly what: string
  readonly nth: number
  readonly resolve: (seen: Seen) => void
}

/**
 * A server in this process with the answers of the test. By default, it opens sessions `session-1`,
 * `session-2`, …, accepts notifications, has no stream, and answers with `{}`.
 */
export function scriptedServer(scripts: Scripts = {}): ScriptedServer {
  const seen: Seen[] = []
  const waiters = new Set<Waiter>()
  let opened = 0
  const ofKind = (what: string): Seen[] => seen.filter((one) => one.what === what)

  const dispatcher = handlerDispatcher(async (request) => {
    const one = await seenFrom(request)
    seen.push(one)
    for (const waiter of waiters) {
      const match = ofKind(waiter.what)[waiter.nth - 1]
      if (match === undefined) continue
      waiters.delete(waiter)
      waiter.resolve(match)
    }
    const script = typeof scripts === 'function' ? scripts : scripts[one.what]
    const scripted = await script?.(one)
    if (scripted !== undefined) return scripted
    if (one.what === 'POST initialize') {
      opened += 1
      return json(resultOf(one, initializeResult), { 'mcp-session-id': `session-${opened}` })
    }
    if (one.httpMethod === 'GET') return new Response(null, { status: 405 })
    if (one.httpMethod === 'DELETE') return new Response(null, { status: 200 })
    return one.id === undefined ? new Response(null, { status: 202 }) : json(resultOf(one, {}))
  })

  return {
    dispatcher,
    seen,
    get wire() {
      return seen.map((one) => one.what)
    },
    count: (what) => ofKind(what).length,
    waitFor(what, nth = 1) {
      const present = ofKind(what)[nth - 1]
      if (present !== undefined) return Promise.resolve(present)
      return new Promise((resolve) => waiters.add({ what, nth, resolve }))
    },
  }
}

export const initializeResult = {
  protocolVersion: '2025-11-25',
  capabilities: { tools: { listChanged: true } },
  serverInfo: { name: 'scripted', version: '1' },
  instructions: 'Be kind',
} as const

export function resultOf(seen: Pick<Seen, 'id'>, result: object): object {
  return { jsonrpc: '2.0', id: seen.id, result }
}

export function errorOf(seen: Pick<Seen, 'id'>, code: number, message: string): object {
  return { jsonrpc: '2.0', id: seen.id, error: { code, message } }
}

export function json(body: unknown, headers: Record<string, string> = {}, status = 200): Response {
  return new Response(JSON.stringify(body), {
    status,
    headers: { 'content-type': 'application/json', ...headers },
  })
}

/** A complete event stream. An event is a message, or text that is sent unchanged. */
export function sse(...events: readonly (string | object)[]): Response {
  return new Response(events.map(eventText).join(''), { headers: SSE })
}

export interface OpenStream {
  readonly response: Response
  push(event: string | object): void
  end(): void
  /** The connection breaks. */
  cut(): void
}

/** An event stream that stays open until the test ends it. */
export function openSse(headers: Record<string, string> = {}): OpenStream {
  let isCancelled = false
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined
  const body = new ReadableStream<Uint8Array>({
    start(own) {
      controller = own
    },
    cancel() {
      isCancelled = true
    },
  })
  return {
    response: new Response(body, { headers: { ...SSE, ...headers } }),
    push(event) {
      if (!isCancelled) controller?.enqueue(Buffer.from(eventText(event)))
    },
    end: () => controller?.close(),
    cut: () => controller?.error(new Error('connection reset')),
  }
}

const SSE = { 'content-type': 'text/event-stream' }

function eventText(event: string | object): string {
  return typeof event === 'string' ? event : `data: ${JSON.stringify(event)}\n\n`
}

async function seenFrom(request: Request): Promise<Seen> {
  const { method, headers, signal } = request
  const message = method === 'POST' ? ((await request.json()) as Record<string, unknown>) : {}
  const rpcMethod = (message['method'] as string | undefined) ?? 'reply'
  return {
    httpMethod: method,
    what: method === 'POST' ? `POST ${rpcMethod}` : method,
    id: message['id'] as string | number | undefined,
    params: message['params'] as Record<string, unknown> | undefined,
    headers,
    sessionId: headers.get('mcp-session-id') ?? undefined,
    signal,
  }
}
