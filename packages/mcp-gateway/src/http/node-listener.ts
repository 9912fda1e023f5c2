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
  const streams = isStreamed(pathOf(incoming.url ?? '/'))
  const request = requestFrom(incoming, gone.signal, streams)
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
  isStreamed: boolean,
): Request | undefined {
  const method = incoming.method ?? 'GET'
  const headers = new Headers()
  const raw = incoming.rawHeaders
  try {
    for (let at = 0; at + 1 < raw.length; at += 2) headers.append(raw[at] ?? '', raw[at + 1] ?? '')
    const path = incoming.url ?? '/'
    const url = path.startsWith('/')
      ? `http://${incoming.headers.host ?? 'localhost'}${path}`
      : path
    if (isStreamed && method !== 'GET' && method !== 'HEAD') {
      const body = Readable.toWeb(incoming)
      return new Request(url, { method, headers, signal, body, duplex: 'half' })
    }
    return new Request(url, { method, headers, signal })
  } catch {
    return undefined // a method or a host that no request can have
  }
}
