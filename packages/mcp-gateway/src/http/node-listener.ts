import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'

import { readNodeBody } from './bounded-body.ts'
import type { HttpAnswer, HttpExchange } from './exchange.ts'
import { pathOf } from './front.ts'
import { NodeRequest } from './node-request.ts'
import { drained, writeJson, writeResponse } from './node-response.ts'

export interface NodeListenerOptions {
  /** Of bodies that are read as a whole. */
  readonly maxBodyBytes: number
  /** Never rejects. */
  readonly serve: (exchange: HttpExchange) => Promise<HttpAnswer>
  /** Whether the body of a request to this path is wanted as a stream, instead of as a whole. */
  readonly isStreamed: (path: string) => boolean
  /** Told of an answer that could not be written. */
  readonly onError: (error: Error) => void
}

/** Serves `node:http` requests in the shape of `fetch`, and reads and writes without copies of streams. */
export function nodeListener(options: NodeListenerOptions): RequestListener {
  return (incoming, outgoing) => {
    serve(incoming, outgoing, options).catch((cause: unknown) => {
      // One request costs its connection, and not the process.
      outgoing.destroy()
      options.onError(new Error('An answer could not be written', { cause }))
    })
  }
}

async function serve(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  { maxBodyBytes, serve: answer, isStreamed }: NodeListenerOptions,
): Promise<void> {
  const gone = new AbortController()
  let isFinished = false
  outgoing.on('close', () => {
    if (!isFinished) gone.abort()
  })
  const request = requestFrom(incoming, gone.signal, isStreamed)
  if (request === undefined) {
    outgoing.writeHead(400).end()
    return
  }
  const answered = await answer({
    request,
    readBody: () => readNodeBody(incoming, maxBodyBytes),
    address: incoming.socket.remoteAddress,
    writable: () => (outgoing.writableNeedDrain ? drained(outgoing) : undefined),
  })
  if (answered.json !== undefined) {
    const { json, status, onEnd } = answered
    const isWritten = writeJson(outgoing, json, { status, headers: lastOf(incoming) })
    isFinished = true
    onEnd?.(isWritten ? 'complete' : 'lost')
    return
  }
  const { response, onEnd } = answered
  const headers: Record<string, string> = Object.fromEntries(response.headers)
  // Of the connection, the server says what it and the client agreed on; transports of MCP say `keep-alive` always.
  delete headers['connection']
  Object.assign(headers, lastOf(incoming))
  const isComplete = await writeResponse(outgoing, response, { headers, signal: gone.signal })
  isFinished = true
  outgoing.end()
  onEnd?.(isComplete ? 'complete' : 'lost')
}

const LAST = { connection: 'close' }

/** What is left of a body that was refused would otherwise be taken for the next request. */
function lastOf(incoming: IncomingMessage): typeof LAST | undefined {
  return incoming.complete ? undefined : LAST
}

function requestFrom(
  incoming: IncomingMessage,
  signal: AbortSignal,
  isStreamed: (path: string) => boolean,
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
    const body = Readable.toWeb(incoming)
    const headers = new Headers(request.headers)
    return new Request(url, { method, headers, signal, body, duplex: 'half' })
  } catch {
    return undefined // a method or a host that no request can have
  }
}

/** What ends the name of a host in a URL, and would make a path or a user of what stands behind it. */
const NO_HOST = /[/?#\\@]/

/** A target with a host of its own counts in place of the header, which proxies had to look at (RFC 9112, section 3.2.2). */
function urlOf({ url: target = '/', headers }: IncomingMessage): string | undefined {
  if (!target.startsWith('/')) return /^https?:\/\//i.test(target) ? target : undefined
  const { host = 'localhost' } = headers
  return NO_HOST.test(host) ? undefined : `http://${host}${target}`
}
