import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { Readable } from 'node:stream'

import { readNodeBody } from './bounded-body.ts'
import type { HttpAnswer, HttpExchange } from '../internal/exchange.ts'
import { pathOf } from './front.ts'
import { NodeRequest } from './node-request.ts'
import { drained, writeJson, writeResponse, type JsonWriting } from './node-response.ts'
import { BODY_TIMEOUT_MS } from './server-limits.ts'
import type { UnreadAnswer, UnreadBytes } from './unread-bytes.ts'

export interface NodeListenerOptions {
  /** Of bodies that are read as a whole. */
  readonly maxBodyBytes: number
  /** How long the body of a POST may take after its head. @default BODY_TIMEOUT_MS */
  readonly bodyTimeoutMs?: number | undefined
  /** Never rejects. */
  readonly serve: (exchange: HttpExchange) => Promise<HttpAnswer>
  /** Whether the body of a request to this path is wanted as a stream, instead of as a whole. */
  readonly isStreamed: (path: string) => boolean
  /** Counts what waits for clients. */
  readonly unread: UnreadBytes
  /** Told of an answer that could not be written. */
  readonly onError: (error: Error) => void
}

/** Requests that may wait on one connection; more end it. */
const MAX_PIPELINED = 256

/**
 * Serves `node:http` requests in the shape of `fetch`, and reads and writes without copies of streams. Requests that
 * a client sends without waiting for the answer before are served one after the other: the answers have to follow
 * each other, and would wait in memory.
 */
export function nodeListener(options: NodeListenerOptions): RequestListener {
  const last = new WeakMap<Socket, ServerResponse>()
  const waiting = new WeakMap<Socket, number>()
  const start: RequestListener = (incoming, outgoing) => {
    serve(incoming, outgoing, options).catch((cause: unknown) => {
      // One request costs its connection, and not the process.
      outgoing.destroy()
      options.onError(new Error('An answer could not be written', { cause }))
    })
  }
  return (incoming, outgoing) => {
    const { socket } = incoming
    const before = outgoing.socket === null ? last.get(socket) : undefined
    last.set(socket, outgoing)
    if (before === undefined) return start(incoming, outgoing)
    const count = (waiting.get(socket) ?? 0) + 1
    waiting.set(socket, count)
    if (count > MAX_PIPELINED) socket.destroy()
    before.once('close', () => {
      waiting.set(socket, (waiting.get(socket) ?? 1) - 1)
      if (!socket.destroyed) start(incoming, outgoing)
    })
  }
}

async function serve(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  options: NodeListenerOptions,
): Promise<void> {
  const { maxBodyBytes, bodyTimeoutMs = BODY_TIMEOUT_MS, serve: answer, unread: counter } = options
  const gone = new AbortController()
  let isFinished = false
  let owner = ''
  const unread = (): UnreadAnswer => counter.open(owner, () => outgoing.destroy())
  outgoing.on('close', () => {
    if (!isFinished) gone.abort()
  })
  const request = requestFrom(incoming, gone.signal, options)
  if (request === undefined) {
    outgoing.writeHead(400).end()
    return
  }
  const answered = await answer({
    request,
    readBody: () => readNodeBody(incoming, { maxBytes: maxBodyBytes, timeoutMs: bodyTimeoutMs }),
    address: incoming.socket.remoteAddress,
    writable: () => (outgoing.writableNeedDrain ? drained(outgoing) : undefined),
    hasRoom: (who) => {
      owner = who
      return counter.hasRoom(who)
    },
  })
  if (answered.json !== undefined) {
    isFinished = true
    return writeText(outgoing, answered, { headers: lastOf(incoming), unread })
  }
  const { response, onEnd } = answered
  const headers: Record<string, string> = Object.fromEntries(response.headers)
  // Of the connection, the server says what it and the client agreed on; transports of MCP say `keep-alive` always.
  delete headers['connection']
  Object.assign(headers, lastOf(incoming))
  const isComplete = await writeResponse(outgoing, response, {
    headers,
    signal: gone.signal,
    unread,
  })
  isFinished = true
  outgoing.end()
  onEnd?.(isComplete ? 'complete' : 'lost')
}

/** Holds nothing of the answer but its bytes while a slow client takes them. */
function writeText(
  outgoing: ServerResponse,
  { json = '', status, onEnd }: HttpAnswer,
  { headers, unread }: Pick<JsonWriting, 'headers' | 'unread'>,
): Promise<void> | undefined {
  const end = (isWritten: boolean): void => {
    if (!outgoing.writableEnded) outgoing.end()
    onEnd?.(isWritten ? 'complete' : 'lost')
  }
  const writing = writeJson(outgoing, json, { status, headers, unread })
  if (typeof writing !== 'boolean') return writing.then(end)
  end(writing)
  return undefined
}

const LAST = { connection: 'close' }

/** What is left of a body that was refused would otherwise be taken for the next request. */
function lastOf(incoming: IncomingMessage): typeof LAST | undefined {
  return incoming.complete ? undefined : LAST
}

function requestFrom(
  incoming: IncomingMessage,
  signal: AbortSignal,
  { isStreamed, bodyTimeoutMs = BODY_TIMEOUT_MS }: NodeListenerOptions,
): Request | undefined {
  try {
    const url = urlOf(incoming)
    if (url === undefined) return undefined
    const request = new NodeRequest(incoming, { url, signal })
    const { method } = request
    if (incoming.url?.startsWith('/') === false) request.headers.set('host', new URL(url).host)
    else if (incoming.headers.host === undefined) request.headers.set('host', '') // HTTP/1.0: to nobody
    // By its address as a request has it, as all that follows: `/a/../b` is `/b`.
    if (method === 'GET' || method === 'HEAD' || !isStreamed(pathOf(request.url))) return request
    if (method === 'POST') endIfSlow(incoming, bodyTimeoutMs)
    const body = Readable.toWeb(incoming)
    const headers = new Headers(request.headers)
    return new Request(url, { method, headers, signal, body, duplex: 'half' })
  } catch {
    return undefined // a method or a host that no request can have
  }
}

/** Forms are short. An upload is a PUT, and may take as long as the server lets a request take. */
function endIfSlow(incoming: IncomingMessage, timeoutMs: number): void {
  const timer = setTimeout(() => incoming.destroy(), timeoutMs)
  const stop = (): void => clearTimeout(timer)
  incoming.once('end', stop).once('close', stop)
}

/** What ends the name of a host in a URL, and would make a path or a user of what stands behind it. */
const NO_HOST = /[/?#\\@]/

/** A target with a host of its own counts in place of the header, which proxies had to look at (RFC 9112, section 3.2.2). */
function urlOf({ url: target = '/', headers }: IncomingMessage): string | undefined {
  if (!target.startsWith('/')) return /^https?:\/\//i.test(target) ? target : undefined
  const { host = 'localhost' } = headers
  return NO_HOST.test(host) ? undefined : `http://${host}${target}`
}
