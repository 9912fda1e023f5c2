import type { ServerResponse } from 'node:http'

/** Events kept for a client that comes back with `Last-Event-ID`. */
const MAX_EVENTS = 100

/** One logical SSE stream: it outlives the responses that carry it, so that it can be resumed. */
export class EventStream {
  /** First part of every event id: ids are a cursor per stream. */
  readonly key: string
  readonly #hasIds: boolean
  readonly #events: { readonly n: number; readonly text: string }[] = []
  readonly #responses = new Set<ServerResponse>()
  #count = 0
  #ended = false

  /** Without ids nobody can resume it. */
  constructor(key: string, hasIds = true) {
    this.key = key
    this.#hasIds = hasIds
  }

  /** Responses that carry it now. */
  get open(): number {
    return this.#responses.size
  }

  /** Carries the stream on `response`; with a cursor, what came after it first. */
  attach(response: ServerResponse, after?: number): void {
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' })
    response.flushHeaders()
    if (after !== undefined) {
      for (const event of this.#events) if (event.n > after) response.write(event.text)
    }
    if (this.#ended) {
      response.end()
      return
    }
    this.#responses.add(response)
    response.once('close', () => this.#responses.delete(response))
  }

  /** An id without a message: from now on the stream can be resumed. */
  prime(): void {
    if (this.#hasIds) this.#emit('')
  }

  /** Sends a JSON-RPC message; returns on how many responses. */
  send(message: unknown): number {
    return this.#emit(JSON.stringify(message))
  }

  /** The stream is over, for those who come later too. */
  end(): void {
    this.#ended = true
    this.drop()
  }

  /** Ends the responses; the stream goes on and may be resumed. Returns how many. */
  drop(): number {
    const dropped = this.#responses.size
    for (const response of this.#responses) response.end()
    this.#responses.clear()
    return dropped
  }

  #emit(data: string): number {
    const n = ++this.#count
    const text = `${this.#hasIds ? `id: ${this.key}-${n}\n` : ''}data: ${data}\n\n`
    this.#events.push({ n, text })
    if (this.#events.length > MAX_EVENTS) this.#events.shift()
    for (const response of this.#responses) response.write(text)
    return this.#responses.size
  }
}

/** The stream and the place in it that an event id names; `undefined` when it is none of ours. */
export function cursorFrom(eventId = ''): { key: string; n: number } | undefined {
  const [, key, n] = /^([a-z]+\d*)-(\d+)$/.exec(eventId) ?? []
  return key === undefined || n === undefined ? undefined : { key, n: Number(n) }
}
