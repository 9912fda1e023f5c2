import { request as httpRequest } from 'node:http'
import type { ClientRequest, IncomingMessage, ServerResponse } from 'node:http'
import { connect } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import type { CannedAnswer } from '../canned-answer.ts'
import { sendAnswer } from '../canned-answer.ts'
import { resetConnection } from '../loopback-server.ts'
import type { Mutable } from '../recording.ts'
import type { Exchange, ExchangeEnd } from './exchange.ts'
import { pairsOf } from './exchange.ts'
import type { Break, Fault } from './faults.ts'
import { changedEvents } from './faults.ts'

/** One exchange on its way, and what the proxy shares with it. */
export interface Passage {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly body: Buffer
  readonly exchange: Mutable<Exchange>
  /** Host and port of the server for this exchange. */
  readonly target: URL
  /** Connections to servers; the proxy destroys them when it stops. */
  readonly upstreams: Set<{ destroy(): unknown }>
  /** Aborts when the proxy stops. */
  readonly stopping: AbortSignal
  /** Settles when the partition is healed; absent without one. */
  readonly healed: () => Promise<void> | undefined
  readonly answered: (status: number) => void
  /** Only the first call counts. */
  readonly ended: (end: ExchangeEnd) => void
}

/** Hands the request to the server and the answer to the client, with `fault` on the way. */
export async function forward(passage: Passage, fault: Fault | undefined): Promise<void> {
  const { response, healed } = passage
  if (fault?.type === 'delay') await pause(passage, fault.requestMs)
  if (healed() !== undefined) await healed()
  if (response.destroyed) return // the client did not wait

  if (fault?.type === 'answer' && fault.when === 'instead') return sendCanned(passage, fault.answer)
  if (fault?.type === 'break-request') {
    if (fault.after === 'nothing') return breakClient(passage, fault.how)
    return sendHalf(passage, fault.how)
  }
  const upstream = openUpstream(passage)
  upstream.once('response', (answer) => {
    receive(passage, answer, fault).catch(() => void serverGone(passage))
  })
  if (fault?.type === 'split') {
    for await (const piece of pieces([passage.body], fault.bytes)) upstream.write(piece)
    upstream.end()
  } else {
    upstream.end(passage.body)
  }
}

function openUpstream(passage: Passage): ClientRequest {
  const { request, response, exchange, target, upstreams, healed } = passage
  const upstream = httpRequest({
    agent: false, // a connection of its own, so that a stale one is never to blame
    host: target.hostname,
    port: target.port === '' ? 80 : Number(target.port),
    method: exchange.httpMethod,
    path: request.url,
    headers: forwardedHeaders(request.rawHeaders, { host: target.host }),
  })
  upstreams.add(upstream)
  upstream.once('close', () => upstreams.delete(upstream))
  upstream.once('socket', (socket) => {
    socket.once('connect', () => (exchange.delivered = 'whole'))
  })
  response.once('close', () => {
    // After a cut the server goes on with its work. The stream of a GET would have no end.
    if (exchange.end === 'cut' && exchange.httpMethod !== 'GET') return
    void Promise.resolve(healed()).then(() => upstream.destroy())
  })
  upstream.on('error', (error: NodeJS.ErrnoException) => {
    if (exchange.end !== undefined || exchange.status !== undefined) return
    if (error.code === 'ECONNREFUSED') {
      void sendCanned(passage, { status: 502, body: 'The proxy could not reach the server' })
    } else {
      void serverGone(passage)
    }
  })
  return upstream
}

/** Hands the answer of the server to the client. Rejects when the server's connection breaks. */
async function receive(
  passage: Passage,
  answer: IncomingMessage,
  fault: Fault | undefined,
): Promise<void> {
  const { response, exchange, healed } = passage
  answer.on('error', () => {}) // reading the answer rejects, too
  if (fault?.type === 'answer') {
    await finish(passage, answer)
    return sendCanned(passage, fault.answer)
  }
  if (fault?.type === 'break-answer' && fault.after === 'nothing') {
    await finish(passage, answer, fault.how)
    return breakClient(passage, fault.how)
  }
  if (fault?.type === 'delay') await pause(passage, fault.answerMs)
  if (healed() !== undefined) await healed()
  if (response.destroyed) return

  const { statusCode = 502, headers, rawHeaders } = answer
  const assigned = headers['mcp-session-id']
  if (typeof assigned === 'string') exchange.assignedSessionId = assigned
  passage.answered(statusCode)
  const dropLength = fault?.type === 'change-events'
  response.writeHead(statusCode, forwardedHeaders(rawHeaders, { dropLength }))
  // A short body goes out in one packet with the head.
  if (headers['content-length'] === undefined || fault !== undefined) response.flushHeaders()
  if (fault?.type === 'repeat-answer' && !hasEvents(answer)) return sendTwice(response, answer)

  for await (const part of changedBody(passage, answer, fault)) {
    if (healed() !== undefined) await healed()
    response.write(part)
  }
  if (fault?.type === 'break-answer') {
    await breakClient(passage, fault.how)
    return finish(passage, answer, fault.how)
  }
  response.end()
}

/** Lets the server finish its work. The stream of a GET has no end to wait for. */
async function finish(
  { exchange }: Passage,
  answer: IncomingMessage,
  how: Break = 'close',
): Promise<void> {
  if (exchange.httpMethod !== 'GET') for await (const _ of answer);
  else if (how !== 'stall') answer.destroy()
}

function hasEvents({ headers }: IncomingMessage): boolean {
  return headers['content-type']?.startsWith('text/event-stream') === true
}

/** The body of `answer` as the fault changes it. */
function changedBody(
  { exchange }: Passage,
  answer: IncomingMessage,
  fault: Fault | undefined,
): AsyncIterable<Buffer> {
  const isEndless = exchange.httpMethod === 'GET'
  if (fault?.type === 'split') return pieces(answer, fault.bytes)
  if (fault?.type === 'repeat-answer') return changedEvents(answer, 'repeat-last', isEndless)
  if (fault?.type === 'break-answer') {
    // The last byte of a known length never passes: with it the answer would be whole.
    const length = Number(answer.headers['content-length'] ?? Number.POSITIVE_INFINITY)
    return firstBytes(answer, Math.min(Number(fault.after) || 0, length - 1))
  }
  if (fault?.type !== 'change-events') return answer
  if (hasEvents(answer)) return changedEvents(answer, fault.change, isEndless)
  if (fault.change === 'truncate') return firstHalf(answer)
  exchange.fault = undefined // there are no events to change
  return answer
}

/** Ends the client's connection behind what was written to it. */
async function breakClient(passage: Passage, how: Break): Promise<void> {
  const { response, ended, healed } = passage
  if (healed() !== undefined) await healed()
  const { socket } = passage.request
  if (how === 'stall' || response.destroyed) return
  ended('cut')
  if (how === 'close') socket.destroySoon()
  else if (response.headersSent) socket.write('', () => resetConnection(socket))
  else resetConnection(socket)
}

/** Hands the head and half of the body to the server, and breaks both connections. */
function sendHalf(passage: Passage, how: Break): void {
  const { request, response, exchange, target, upstreams } = passage
  const headers = forwardedHeaders(request.rawHeaders, { host: target.host, dropLength: true })
  const lines = [
    `${exchange.httpMethod} ${request.url} HTTP/1.1`,
    ...pairsOf(headers).map(([name, value]) => `${name}: ${value}`),
    ...(passage.body.length > 0 ? [`content-length: ${passage.body.length}`] : []),
  ]
  const head = `${lines.join('\r\n')}\r\n`
  const half = passage.body.subarray(0, Math.floor(passage.body.length / 2))
  const socket = connect(Number(target.port === '' ? 80 : target.port), target.hostname, () => {
    exchange.delivered = 'partial'
    // A request without a body lacks the empty line after its head.
    socket.write(half.length === 0 ? head : `${head}\r\n`, 'latin1')
    socket.write(half, () => {
      if (how === 'reset') resetConnection(socket)
      else if (how === 'close') socket.destroySoon()
      void breakClient(passage, how)
    })
  })
  upstreams.add(socket)
  socket.on('error', () => void serverGone(passage))
  socket.once('close', () => upstreams.delete(socket))
  response.once('close', () => socket.destroy())
}

async function serverGone({ exchange, request, ended, healed }: Passage): Promise<void> {
  if (healed() !== undefined) await healed()
  if (exchange.end !== undefined) return
  ended('server-gone')
  resetConnection(request.socket)
}

async function sendCanned(passage: Passage, answer: CannedAnswer): Promise<void> {
  const { response, exchange, answered, healed } = passage
  if (healed() !== undefined) await healed()
  if (response.destroyed) return
  answered(answer.status)
  sendAnswer(response, answer, exchange.rpcId)
}

/** Sends the answer, and the same HTTP response again right behind it. */
async function sendTwice(response: ServerResponse, answer: IncomingMessage): Promise<void> {
  const body = await buffer(answer)
  const { socket } = response
  response.end(body, () => {
    const head = [`HTTP/1.1 ${response.statusCode} ${response.statusMessage}`]
    const type = answer.headers['content-type']
    if (type !== undefined) head.push(`content-type: ${type}`)
    head.push(`content-length: ${body.length}`, '', '')
    socket?.write(Buffer.concat([Buffer.from(head.join('\r\n'), 'latin1'), body]))
  })
}

/** Chunks in pieces of at most `bytes`, each in a packet of its own. */
async function* pieces(
  chunks: Iterable<Buffer> | AsyncIterable<Buffer>,
  bytes: number,
): AsyncGenerator<Buffer> {
  for await (const chunk of chunks) {
    for (let at = 0; at < chunk.length; at += bytes) {
      yield chunk.subarray(at, at + bytes)
      await nextTurn()
    }
  }
}

/** The first bytes of a stream; the rest stays readable. */
async function* firstBytes(answer: IncomingMessage, bytes: number): AsyncGenerator<Buffer> {
  if (bytes <= 0) return
  let left = bytes
  for await (const chunk of answer.iterator({ destroyOnReturn: false })) {
    const part = (chunk as Buffer).subarray(0, left)
    left -= part.length
    yield part
    if (left === 0) return
  }
}

async function* firstHalf(answer: IncomingMessage): AsyncGenerator<Buffer> {
  const body = await buffer(answer)
  yield body.subarray(0, Math.ceil(body.length / 2))
}

/** Waits, unless the proxy stops. */
async function pause({ stopping }: Passage, ms = 0): Promise<void> {
  await sleep(ms, undefined, { signal: stopping }).catch(() => {})
}

/** Headers that concern one connection; they are not forwarded (RFC 9110, section 7.6.1). */
const HOP_BY_HOP =
  /^(connection|keep-alive|proxy-connection|te|trailer|transfer-encoding|upgrade|expect)$/i

/** Raw headers without those of the connection; `host` replaces the one that was sent. */
function forwardedHeaders(
  raw: readonly string[],
  { host, dropLength = false }: { host?: string; dropLength?: boolean },
): string[] {
  return pairsOf(raw).flatMap(([name, value]) => {
    if (HOP_BY_HOP.test(name) || (dropLength && /^content-length$/i.test(name))) return []
    return [name, host !== undefined && /^host$/i.test(name) ? host : value]
  })
}
