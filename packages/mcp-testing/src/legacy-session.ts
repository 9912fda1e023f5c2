import { randomUUID } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { isRecord } from '@x/internal'
import { deferred } from '@x/internal/testing'
import type { Deferred } from '@x/internal/testing'
import type { RpcId, RpcMessage } from './rpc-message.ts'

/** Finished answer streams kept for resumption. */
const MAX_STREAMS = 50

/** State of one session of a legacy server. */
export class LegacySession {
  /** Absent on a server that assigns no ids. */
  readonly id: string | undefined
  readonly protocolVersion: string
  /** The stream of the standalone GET. */
  readonly listen: EventStream = new EventStream('listen')
  /** Requests without an answer yet, to be cancelled. */
  readonly running: Map<RpcId, AbortController> = new Map()
  /** State of the tools. */
  readonly state: Map<string, unknown> = new Map()
  readonly #streams = new Map<string, EventStream>([[this.listen.key, this.listen]])
  /** Requests to the client without an answer yet. */
  readonly #asked = new Map<unknown, Deferred<unknown>>()
  #opened = 0

  constructor(id: string | undefined, protocolVersion: string) {
    this.id = id
    this.protocolVersion = protocolVersion
  }

  /** Cancels the request with this id, if it runs. */
  cancel(id: unknown): void {
    if (typeof id === 'string' || typeof id === 'number') this.running.get(id)?.abort()
  }

  /** Sends requests to the client on the stream of a call, and resolves to its answers, by key. */
  async ask(
    stream: EventStream,
    requests: Readonly<Record<string, unknown>>,
    signal: AbortSignal,
  ): Promise<Record<string, unknown>> {
    const answers = Object.entries(requests).map(async ([key, request]) => {
      const id = randomUUID()
      const answer = deferred<unknown>()
      const abort = (): void => answer.reject(new Error('The call was cancelled'))
      this.#asked.set(id, answer)
      signal.addEventListener('abort', abort)
      try {
        stream.send({ ...Object(request), jsonrpc: '2.0', id })
        return [key, await answer.promise] as const
      } finally {
        signal.removeEventListener('abort', abort)
        this.#asked.delete(id)
      }
    })
    return Object.fromEntries(await Promise.all(answers))
  }

  /** The client has answered a request of the server. */
  answered({ id, result, error }: RpcMessage): void {
    const asked = this.#asked.get(id)
    const reason = isRecord(error) ? String(error['message']) : 'no reason'
    if (error === undefined) asked?.resolve(result)
    else asked?.reject(new Error(`The client refused the request: ${reason}`))
  }

  /** A new stream for the answer to one POST. */
  openStream(hasIds: boolean): EventStream {
    const stream = new EventStream(`post${++this.#opened}`, hasIds)
    this.#streams.set(stream.key, stream)
    if (this.#streams.size > MAX_STREAMS) {
      const oldest = [...this.#streams.keys()].find((key) => key !== this.listen.key)
      if (oldest !== undefined) this.#streams.delete(oldest)
    }
    return stream
  }

  streamOf(key: string): EventStream | undefined {
    return this.#streams.get(key)
  }

  /** Answer streams that a client is reading now. */
  get answerStreams(): EventStream[] {
    return [...this.#streams.values()].filter((stream) => stream !== this.listen && stream.open > 0)
  }
}

/** Events kept for a client that resumes with `Last-Event-ID`. */
const MAX_EVENTS = 100

/** One logical SSE stream. It outlives the responses that carry it, so that a client can resume it. */
export class EventStream {
  /** First part of every event id: ids are a cursor per stream. */
  readonly key: string
  readonly #hasIds: boolean
  readonly #events: { readonly n: number; readonly text: string }[] = []
  readonly #responses = new Set<ServerResponse>()
  #count = 0
  #ended = false

  /** Without event ids a client cannot resume it. */
  constructor(key: string, hasIds = true) {
    this.key = key
    this.#hasIds = hasIds
  }

  /** Number of responses that carry it now. */
  get open(): number {
    return this.#responses.size
  }

  /** Carries the stream on `response`. With a cursor, sends the events after it first. */
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

  /** Sends an event id without a message: from now on a client can resume the stream. */
  prime(): void {
    if (this.#hasIds) this.#emit('')
  }

  /** Sends a JSON-RPC message; returns the number of responses it went to. */
  send(message: unknown): number {
    return this.#emit(JSON.stringify(message))
  }

  /** Ends the stream, also for responses that come later. */
  end(): void {
    this.#ended = true
    this.drop()
  }

  /** Ends the responses; the stream goes on, and a client can resume it. Returns how many. */
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

/** The stream and the position in it that an event id names; `undefined` for an unknown form. */
export function cursorFrom(eventId = ''): { key: string; n: number } | undefined {
  const [, key, n] = /^([a-z]+\d*)-(\d+)$/.exec(eventId) ?? []
  return key === undefined || n === undefined ? undefined : { key, n: Number(n) }
}
