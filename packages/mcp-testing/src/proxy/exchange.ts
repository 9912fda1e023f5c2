import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { RecordedRequest } from '../recording-server.ts'
import { Recording } from '../recording.ts'

/** How an exchange ended. */
export type ExchangeEnd =
  | 'complete' // the whole answer went to the client
  | 'client-gone' // the client closed the request or its connection
  | 'server-gone' // the server's connection broke; the proxy reset the client's connection in turn
  | 'cut' // a fault or `dropConnections()` ended the client's connection

/** Headers and body of one side of an exchange. Secrets are in full. */
interface RecordedMessage {
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  /** The first `keepBodies` bytes as UTF-8, without a character that they end in the middle of. */
  readonly body: string
  /** Number of bytes of the body so far. */
  readonly bytes: number
}

/** One HTTP exchange. Its fields fill up while it happens. */
export interface Exchange extends RecordedRequest {
  /** 1 for the first. */
  readonly n: number
  /** Without the query. */
  readonly path: string
  /** Argument `key` of a `tools/call`, if it is a string. */
  readonly key: string | undefined
  /** Session id of the answer to `initialize`. */
  readonly assignedSessionId: string | undefined
  /**
   * Part of the request that was handed to the server's connection. After `'none'` the server cannot
   * have executed anything.
   */
  readonly delivered: 'none' | 'partial' | 'whole'
  /** Name of the fault that a rule gave it. */
  readonly fault: string | undefined
  /** Milliseconds since the epoch. */
  readonly startedAt: number
  /** Duration, once it has ended. */
  readonly ms: number | undefined
  /** Absent while it goes on. */
  readonly end: ExchangeEnd | undefined
  /** Request of the client. Only with `keepBodies`. */
  readonly request: RecordedMessage | undefined
  /** Answer to the client. Only with `keepBodies`; absent before its head. */
  readonly response: RecordedMessage | undefined
}

/** Fields that `count` compares; a field that is left out matches all exchanges. */
export type ExchangeFilter = {
  readonly [Name in (typeof FILTER_KEYS)[number]]?: Exchange[Name]
}

const FILTER_KEYS = ['httpMethod', 'rpcMethod', 'toolName', 'status', 'fault'] as const

/** The exchanges since a moment, of those that the proxy keeps. */
export interface ExchangeMark {
  exchanges(): readonly Exchange[]
  count(filter?: ExchangeFilter): number
  /** TCP connections that the client opened since. */
  connections(): number
  /** TCP connections that the client opened since and used for a POST. */
  postConnections(): number
}

/** Exchanges in order. Forgets the oldest ended ones beyond `keep`. */
export class ExchangeLog extends Recording<Exchange> {
  readonly #keep: number
  /** Exchanges so far, with those forgotten. */
  total = 0

  constructor(keep: number) {
    super('exchanges through the proxy')
    this.#keep = keep
  }

  override add(exchange: Exchange): void {
    this.total += 1
    super.add(exchange)
  }

  /** An exchange got its status or a fault, or ended. */
  override changed(exchange: Exchange): void {
    super.changed(exchange)
    if (exchange.end === undefined || this.entries.length <= this.#keep) return
    this.entries.splice(
      this.entries.findIndex(({ end }) => end !== undefined),
      1,
    )
  }

  count(filter: ExchangeFilter, after = 0): number {
    const matches = (one: Exchange): boolean =>
      FILTER_KEYS.every((key) => filter[key] === undefined || filter[key] === one[key])
    return this.entries.filter((one) => one.n > after && matches(one)).length
  }

  /** `connections` returns how many connections the client has opened so far. */
  mark(connections: () => number): ExchangeMark {
    const after = this.total
    const opened = connections()
    const exchanges = (): Exchange[] => this.entries.filter(({ n }) => n > after)
    return {
      exchanges,
      count: (filter = {}) => this.count(filter, after),
      connections: () => connections() - opened,
      postConnections() {
        const posts = exchanges().filter(({ httpMethod }) => httpMethod === 'POST')
        const numbers = new Set(posts.map(({ connection }) => connection))
        return [...numbers].filter((number) => number > opened).length
      },
    }
  }
}

/** A {@link RecordedMessage} that fills up. */
export class MessageRecord implements RecordedMessage {
  readonly headers: Record<string, string> = {}
  body = ''
  bytes = 0
  readonly #decoder = new TextDecoder()
  #left: number

  /** `keep`: number of bytes of the body to keep. */
  constructor(keep: number) {
    this.#left = keep
  }

  addHeaders(entries: Iterable<readonly [string, unknown]>): void {
    for (const [name, value] of entries) {
      const key = name.toLowerCase()
      const known = this.headers[key]
      this.headers[key] = known === undefined ? String(value) : `${known}, ${String(value)}`
    }
  }

  addBytes(chunk: unknown): void {
    if (typeof chunk !== 'string' && !(chunk instanceof Uint8Array)) return
    const bytes = Buffer.from(chunk)
    this.bytes += bytes.length
    const kept = bytes.subarray(0, this.#left)
    this.#left -= kept.length
    this.body += this.#decoder.decode(kept, { stream: true })
  }

  /** Adds everything that is written to `response`, and calls `onHead` when its head is written. */
  follow(response: ServerResponse, onHead: () => void): void {
    const writeHead = response.writeHead.bind(response)
    const write = response.write.bind(response)
    const end = response.end.bind(response)
    Object.assign(response, {
      writeHead: (status: number, headers: OutgoingHttpHeaders | readonly string[] = {}) => {
        this.addHeaders(isFlat(headers) ? pairsOf(headers) : Object.entries(headers))
        onHead()
        return Reflect.apply(writeHead, undefined, [status, headers])
      },
      write: (chunk: unknown, ...rest: unknown[]) => {
        this.addBytes(chunk)
        return Reflect.apply(write, undefined, [chunk, ...rest])
      },
      end: (chunk?: unknown, ...rest: unknown[]) => {
        this.addBytes(chunk)
        return Reflect.apply(end, undefined, [chunk, ...rest])
      },
    })
  }
}

function isFlat(headers: OutgoingHttpHeaders | readonly string[]): headers is readonly string[] {
  return Array.isArray(headers)
}

/** Pairs of name and value of raw headers. */
export function pairsOf(raw: readonly string[]): [string, string][] {
  return raw.flatMap((name, index) => (index % 2 === 0 ? [[name, raw[index + 1] ?? '']] : []))
}
