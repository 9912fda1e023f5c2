import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'

import { readNodeBody } from './bounded-body.ts'
import type { HttpAnswer, HttpExchange } from './exchange.ts'
import { pathOf } from './front.ts'
import { drained, writeResponse } from './node-response.ts'

export interface NodeListenerOptions {
  /** Of bodies that are read as a whole. */
  readonly maxBodyBytes: number
  /** Never rejects. */
  readonly serve: (exchange: HttpExchange) => Promise<HttpAnswer>
  /** Whether the body of a request to this path is wanted as a stream, instead of as a whole. */
  readonly isStreamed: (path: string) => boolean
}

/** Serves `node:http` requests in the shape of `fetch`, and reads and writes without copies of streams. */
export function nodeListener(options: NodeListenerOptions): RequestListener {
  return (incoming, outgoing) => {
    void serve(incoming, outgoing, options)
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
  const { response, onEnd } = await answer({
    request,
    readBody: () => readNodeBody(incoming, maxBodyBytes),
    address: incoming.socket.remoteAddress,
    writable: () => (outgoing.writableNeedDrain ? drained(outgoing) : undefined),
  })
  const headers: Record<string, string> = Object.fromEntries(response.headers)
  // Of the connection, the server says what it and the client agreed on; transports of MCP say `keep-alive` always.
  delete headers['connection']
  // What is left of a body that was refused would otherwise be taken for the next request.
  if (!incoming.complete) headers['connection'] = 'close'
  const isComplete = await writeResponse(outgoing, response, { headers, signal: gone.signal })
  isFinished = true
  outgoing.end()
  onEnd?.(isComplete ? 'complete' : 'lost')
}

function requestFrom(
  incoming: IncomingMessage,
  signal: AbortSignal,
  isStreamed: (path: string) => boolean,
): Request | undefined {
  const method = incoming.method ?? 'GET'
  const headers = new Headers()
  const raw = incoming.rawHeaders
  try {
    for (let at = 0; at + 1 < raw.length; at += 2) headers.append(raw[at] ?? '', raw[at + 1] ?? '')
    const url = urlOf(incoming)
    if (url === undefined) return undefined
    if (incoming.url?.startsWith('/') === false) headers.set('host', new URL(url).host)
    const request = new Request(url, { method, headers, signal })
    // By its address as a request has it, as all that follows: `/a/../b` is `/b`.
    if (method === 'GET' || method === 'HEAD' || !isStreamed(pathOf(request.url))) return request
    const body = Readable.toWeb(incoming)
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
