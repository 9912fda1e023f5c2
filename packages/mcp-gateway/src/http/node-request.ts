import type { IncomingMessage } from 'node:http'

import { NodeHeaders } from './node-headers.ts'

/** What `fetch` knows no requests of (Fetch standard, "forbidden method"). */
const FORBIDDEN: ReadonlySet<string | undefined> = new Set(['CONNECT', 'TRACE', 'TRACK'])

export interface NodeRequestInit {
  /** The whole URL that it was sent to. */
  readonly url: string
  /** Aborts when the client has gone. */
  readonly signal: AbortSignal
}

/**
 * A request of `node:http` in the shape of `fetch`, without its body, which is read apart. A real `Request` is made
 * when somebody asks for more than method, URL, headers and signal: it costs as much as a good part of a call.
 */
export class NodeRequest implements Request {
  readonly method: string
  readonly url: string
  readonly headers: Headers
  readonly signal: AbortSignal
  #whole: Request | undefined

  /** @throws TypeError for a method, a host or a target that no request can have */
  constructor(incoming: IncomingMessage, { url: target, signal }: NodeRequestInit) {
    const { method = 'GET' } = incoming
    if (FORBIDDEN.has(method)) throw new TypeError('No such method')
    const url = new URL(target)
    if (url.username !== '' || url.password !== '') throw new TypeError('A target with a name')
    this.method = method
    this.url = url.href
    this.headers = new NodeHeaders(incoming)
    this.signal = signal
  }

  readonly body = null
  readonly bodyUsed = false

  get cache(): Request['cache'] {
    return this.#all().cache
  }

  get credentials(): Request['credentials'] {
    return this.#all().credentials
  }

  get destination(): Request['destination'] {
    return this.#all().destination
  }

  get duplex(): Request['duplex'] {
    return this.#all().duplex
  }

  get integrity(): string {
    return this.#all().integrity
  }

  get keepalive(): boolean {
    return this.#all().keepalive
  }

  get mode(): Request['mode'] {
    return this.#all().mode
  }

  get redirect(): Request['redirect'] {
    return this.#all().redirect
  }

  get referrer(): string {
    return this.#all().referrer
  }

  get referrerPolicy(): Request['referrerPolicy'] {
    return this.#all().referrerPolicy
  }

  arrayBuffer(): Promise<ArrayBuffer> {
    return this.#all().arrayBuffer()
  }

  blob(): ReturnType<Request['blob']> {
    return this.#all().blob()
  }

  bytes(): ReturnType<Request['bytes']> {
    return this.#all().bytes()
  }

  formData(): ReturnType<Request['formData']> {
    return this.#all().formData()
  }

  json(): Promise<unknown> {
    return this.#all().json()
  }

  text(): Promise<string> {
    return this.#all().text()
  }

  clone(): Request {
    return this.#all().clone()
  }

  #all(): Request {
    const { method, url, signal } = this
    this.#whole ??= new Request(url, { method, headers: new Headers(this.headers), signal })
    return this.#whole
  }
}
