import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { Readable } from 'node:stream'

import type { BodyText, HttpExchange, Reply, RequestHeaders } from '../mcp/reply.ts'
import { writeReply } from './node-writer.ts'
import { pathOf } from './router.ts'
import type { UnreadBytes } from './unread-bytes.ts'

export interface NodeListenerOptions {
  /** Limit of bodies that are read as a whole. */
  readonly maxBodyBytes: number
  /** Never rejects. */
  readonly serve: (exchange: HttpExchange) => Promise<Reply>
  /** Returns true for paths of requests whose bodies are read as streams. */
  readonly isStreamed: (path: string) => boolean
  /** Counts the bytes that wait for clients. */
  readonly unread: UnreadBytes
  /** Receives failures to write a reply. */
  readonly onError: (error: Error) => void
}

/** Time for the body of a POST after its head. With the time for the head, a POST may take 30 s. */
const BODY_TIMEOUT_MS = 20_000

/** Number of requests that may wait on one connection. A client that sends more loses its connection. */
const MAX_PIPELINED = 256

/**
 * Serves requests of `node:http`. Requests that a client sends on one connection without waiting for the answers are
 * served one after the other, because the answers must have the same order, and would wait in memory.
 */
export function nodeListener(options: NodeListenerOptions): RequestListener {
  const last = new WeakMap<Socket, ServerResponse>()
  const waiting = new WeakMap<Socket, number>()
  return (incoming, outgoing) => {
    const { socket } = incoming
    const before = outgoing.socket === null ? last.get(socket) : undefined
    last.set(socket, outgoing)
    if (before === undefined) return serve(incoming, outgoing, options)
    const count = (waiting.get(socket) ?? 0) + 1
    waiting.set(socket, count)
    if (count > MAX_PIPELINED) socket.destroy()
    before.once('close', () => {
      waiting.set(socket, (waiting.get(socket) ?? 1) - 1)
      if (!socket.destroyed) serve(incoming, outgoing, options)
    })
  }
}

function serve(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  options: NodeListenerOptions,
): void {
  let exchange: NodeExchange
  try {
    exchange = new NodeExchange(incoming, outgoing, options)
  } catch {
    outgoing.writeHead(400).end() // no `Request` can have this method, target or host
    return
  }
  // A callback, because an `await` here would keep the text of the reply until the client has read its bytes.
  void options
    .serve(exchange)
    .then((reply) => {
      // The rest of a refused body must not be read as the next request.
      const isRead = incoming.complete || exchange.hasWholeBody
      const headers = isRead ? undefined : { connection: 'close' }
      return writeReply(outgoing, reply, {
        headers,
        account: exchange.account,
        unread: options.unread,
      })
    })
    .catch((cause: unknown) => {
      outgoing.destroy()
      options.onError(new Error('A reply could not be written', { cause }))
    })
}

/** The headers of a request as Node has parsed them. A `Headers` would parse and store all of them once more. */
class NodeHeaders implements RequestHeaders {
  readonly #parsed: IncomingMessage['headers']
  readonly #host: string

  constructor(parsed: IncomingMessage['headers'], host: string) {
    this.#parsed = parsed
    this.#host = host
  }

  get(name: string): string | null {
    const key = name.toLowerCase()
    if (key === 'host') return this.#host
    const value: unknown = this.#parsed[key]
    return typeof value === 'string' ? value : null
  }

  has(name: string): boolean {
    return this.get(name) !== null
  }

  entries(): Iterable<[string, string]> {
    return Object.keys({ ...this.#parsed, host: this.#host }).flatMap((name) => {
      const value = this.get(name)
      return value === null ? [] : [[name, value]]
    })
  }
}

/** Methods that no `Request` can have (Fetch standard, "forbidden method"). */
const FORBIDDEN: ReadonlySet<string> = new Set(['CONNECT', 'TRACE', 'TRACK'])

/** Characters that end the host in a URL: text behind them would become a path or a user name. */
const NO_HOST = /[/?#\\@]/

/**
 * A request of `node:http`. Its `Request` is made only for those who need one, because it costs much. The responses need a
 * writer with limits for clients that do not read, so a library would only serve this half.
 */
class NodeExchange implements HttpExchange {
  readonly method: string
  readonly url: string
  readonly headers: RequestHeaders
  address: string | undefined
  /** For whom the bytes of the reply are counted. Known when the request may be executed. */
  account = ''
  /** The body was read as a whole. Node may not have noticed its end yet. */
  hasWholeBody = false
  readonly #incoming: IncomingMessage
  readonly #outgoing: ServerResponse
  readonly #options: NodeListenerOptions
  #request: Request | undefined
  #left: AbortController | undefined

  /** @throws TypeError for a request that no `Request` can be made of */
  constructor(incoming: IncomingMessage, outgoing: ServerResponse, options: NodeListenerOptions) {
    const { method = 'GET', socket, url: target = '/' } = incoming
    const hasHost = !target.startsWith('/')
    if (FORBIDDEN.has(method) || (hasHost && !/^https?:\/\//i.test(target))) {
      throw new TypeError('The method or the target is not allowed')
    }
    const { host = '' } = incoming.headers
    if (NO_HOST.test(host)) throw new TypeError('The host is malformed')
    const url = new URL(hasHost ? target : `http://${host || 'localhost'}${target}`)
    if (url.username !== '' || url.password !== '') throw new TypeError('The URL has a user name')
    this.method = method
    this.url = url.href
    // A host in the target replaces the header, which proxies read (RFC 9112, section 3.2.2). HTTP/1.0 needs no host.
    this.headers = new NodeHeaders(incoming.headers, hasHost ? url.host : host)
    this.address = socket.remoteAddress
    this.#incoming = incoming
    this.#outgoing = outgoing
    this.#options = options
  }

  get signal(): AbortSignal {
    if (this.#left) return this.#left.signal
    const left = new AbortController()
    this.#left = left
    const leave = (): void => {
      if (!this.#outgoing.writableEnded) left.abort()
    }
    if (this.#outgoing.destroyed) leave()
    else this.#outgoing.on('close', leave)
    return left.signal
  }

  get request(): Request {
    if (this.#request) return this.#request
    const { method, url, signal } = this
    const hasBody = method !== 'GET' && method !== 'HEAD' && this.#options.isStreamed(pathOf(url))
    // An upload is a PUT, and may take as long as the server allows. A POST carries a form.
    const incoming = this.#incoming
    const headers = new Headers([...this.headers.entries()])
    if (hasBody && method === 'POST') {
      const timer = setTimeout(() => incoming.destroy(), BODY_TIMEOUT_MS)
      incoming.once('close', () => clearTimeout(timer))
    }
    const body = hasBody ? Readable.toWeb(incoming) : null
    this.#request = new Request(url, { method, headers, signal, body, duplex: 'half' })
    return this.#request
  }

  /** Keeps no bytes beyond the limit. Never rejects. */
  readBody(): Promise<BodyText> {
    const { maxBodyBytes } = this.#options
    const incoming = this.#incoming
    const tooLarge: BodyText = { ok: false, why: 'too-large' }
    const length = Number(incoming.headers['content-length'])
    if (length > maxBodyBytes) return Promise.resolve(tooLarge)
    // Most bodies arrive with the head, and need neither listeners nor a timer.
    if (length > 0 && incoming.readableLength === length) {
      const body: unknown = incoming.read(length)
      incoming.resume() // to its end
      this.hasWholeBody = true
      return Promise.resolve({ ok: true, text: String(body) })
    }
    // Its client has left, and the events below have passed.
    if (incoming.destroyed) return Promise.resolve({ ok: false, why: 'broken' })
    return new Promise((resolve) => {
      const chunks: Buffer[] = []
      let size = 0
      const settle = (result: BodyText): void => {
        clearTimeout(timer)
        incoming.off('data', onData).off('end', onEnd).off('error', onBroken).off('close', onBroken)
        resolve(result)
      }
      const onData = (chunk: Buffer): void => {
        size += chunk.byteLength
        if (size > maxBodyBytes) settle(tooLarge)
        else chunks.push(chunk)
      }
      const onEnd = (): void => {
        const only = chunks.length === 1 ? chunks[0] : undefined
        settle({ ok: true, text: (only ?? Buffer.concat(chunks, size)).toString('utf8') })
      }
      const onBroken = (): void => settle({ ok: false, why: 'broken' })
      const timer = setTimeout(() => settle({ ok: false, why: 'slow' }), BODY_TIMEOUT_MS)
      incoming.on('data', onData).on('end', onEnd).on('error', onBroken).on('close', onBroken)
    })
  }

  readonly hasRoom = (account: string): boolean => {
    this.account = account
    return this.#options.unread.hasRoom(account)
  }
}
