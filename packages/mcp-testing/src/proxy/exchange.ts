import { Recording } from '../recording.ts'
import type { WaitForOptions } from '../recording.ts'
import type { RpcId } from '../rpc-message.ts'

/** How an exchange ended. */
export type ExchangeEnd =
  | 'complete' // the whole answer went to the client
  | 'client-gone' // the client closed the request or its connection
  | 'server-gone' // the server's connection broke; the proxy reset the client's connection in turn
  | 'cut' // a fault or `dropConnections()` ended the client's connection

/** One HTTP exchange. Its fields fill up while it happens. Ids are in full: this is a test tool. */
export interface Exchange {
  /** 1 for the first. */
  readonly n: number
  /** Number of the client's TCP connection; the first one is 1. */
  readonly connection: number
  /** The client's connection has carried an exchange before. */
  readonly reused: boolean
  readonly httpMethod: string
  /** Without the query. */
  readonly path: string
  readonly rpcMethod?: string | undefined
  readonly rpcId?: RpcId | undefined
  /** Tool of a `tools/call`. */
  readonly toolName?: string | undefined
  /** Argument `key` of a `tools/call`, if it is a string. */
  readonly key?: string | undefined
  /** As the client sent it. */
  readonly sessionId?: string | undefined
  /** As the server assigned it, on the answer to `initialize`. */
  readonly assignedSessionId?: string | undefined
  readonly protocolVersion?: string | undefined
  readonly lastEventId?: string | undefined
  /** The bearer token of the request: in a test, the token names the user. */
  readonly principal?: string | undefined
  /**
   * How much of the request was handed to the server's connection. After `'none'` the server cannot
   * have executed anything.
   */
  readonly delivered: 'none' | 'partial' | 'whole'
  /** As it went to the client; absent while there is no answer. */
  readonly status?: number | undefined
  /** A rule acted on it. */
  readonly injected?: boolean | undefined
  /** Name of the fault that a rule gave it. */
  readonly fault?: string | undefined
  /** Milliseconds since the epoch. */
  readonly startedAt: number
  /** Duration, once it has ended. */
  readonly ms?: number | undefined
  /** Absent while it goes on. */
  readonly end?: ExchangeEnd | undefined
}

/** Fields that `count` compares; a field that is left out matches all exchanges. */
export interface ExchangeFilter {
  readonly httpMethod?: string | undefined
  readonly rpcMethod?: string | undefined
  readonly toolName?: string | undefined
  readonly status?: number | undefined
  readonly fault?: string | undefined
}

/** The exchanges since a moment. */
export interface ExchangeMark {
  /** Those that the proxy still keeps. */
  exchanges(): readonly Exchange[]
  count(filter?: ExchangeFilter): number
  /** TCP connections that the client opened since. */
  connections(): number
  /** TCP connections that the client opened since and used for a POST. */
  postConnections(): number
  waitFor(matches: (exchange: Exchange) => boolean, options?: WaitForOptions): Promise<Exchange>
}

const FILTER_KEYS = ['httpMethod', 'rpcMethod', 'toolName', 'status', 'fault'] as const

interface Tally {
  readonly sample: ExchangeFilter
  readonly count: number
}

/** Exchanges in order. Forgets the oldest ones beyond `keep`, but counts them for ever. */
export class ExchangeLog {
  readonly #recording = new Recording<Exchange>('exchanges through the proxy')
  readonly #keep: number
  /** Forgotten exchanges, by the values of their filter fields. */
  readonly #forgotten = new Map<string, Tally>()
  /** Numbers of the connections that carried an exchange, by HTTP method. */
  readonly #connections = new Map<string, Set<number>>()
  #total = 0

  constructor(keep: number) {
    this.#keep = keep
  }

  get entries(): readonly Exchange[] {
    return this.#recording.entries
  }

  /** Number of the next exchange. */
  get next(): number {
    return this.#total + 1
  }

  add(exchange: Exchange): void {
    this.#total += 1
    let numbers = this.#connections.get(exchange.httpMethod)
    if (numbers === undefined) this.#connections.set(exchange.httpMethod, (numbers = new Set()))
    numbers.add(exchange.connection)
    this.#recording.add(exchange)
  }

  /** An exchange got its status, or ended. */
  changed(exchange: Exchange): void {
    this.#recording.changed(exchange)
    if (exchange.end !== undefined) this.#forgetOldest()
  }

  count(filter: ExchangeFilter): number {
    return countTallies(this.#forgotten, filter) + countExchanges(this.entries, filter)
  }

  /** Connections with a number above `after` that carried such a request. */
  connectionsWith(httpMethod: string, after = 0): number {
    const numbers = this.#connections.get(httpMethod) ?? []
    return [...numbers].filter((number) => number > after).length
  }

  waitFor(matches: (exchange: Exchange) => boolean, options?: WaitForOptions): Promise<Exchange> {
    return this.#recording.waitFor(matches, options)
  }

  /** `connections()` returns how many connections the client has opened so far. */
  mark(connections: () => number): ExchangeMark {
    const after = this.#total
    const opened = connections()
    // Exchanges up to now may still get a status, or be forgotten, so they are subtracted when asked.
    const forgotten = new Map(this.#forgotten)
    const kept = [...this.entries]
    return {
      exchanges: () => this.entries.filter((exchange) => exchange.n > after),
      count: (filter = {}) =>
        this.count(filter) - countTallies(forgotten, filter) - countExchanges(kept, filter),
      connections: () => connections() - opened,
      postConnections: () => this.connectionsWith('POST', opened),
      waitFor: (matches, options) =>
        this.waitFor((exchange) => exchange.n > after && matches(exchange), options),
    }
  }

  /** Rejects every wait. */
  close(): void {
    this.#recording.close()
  }

  /** Exchanges that go on are kept. */
  #forgetOldest(): void {
    const entries = this.#recording.entries
    while (entries.length > this.#keep) {
      const index = entries.findIndex((exchange) => exchange.end !== undefined)
      const [exchange] = index < 0 ? [] : entries.splice(index, 1)
      if (exchange === undefined) return
      const key = JSON.stringify(FILTER_KEYS.map((name) => exchange[name] ?? null))
      const count = (this.#forgotten.get(key)?.count ?? 0) + 1
      const { httpMethod, rpcMethod, toolName, status, fault } = exchange
      const sample = { httpMethod, rpcMethod, toolName, status, fault }
      this.#forgotten.set(key, { sample, count })
    }
  }
}

function passes(exchange: ExchangeFilter, filter: ExchangeFilter): boolean {
  return FILTER_KEYS.every((key) => filter[key] === undefined || filter[key] === exchange[key])
}

function countExchanges(exchanges: readonly Exchange[], filter: ExchangeFilter): number {
  return exchanges.filter((exchange) => passes(exchange, filter)).length
}

function countTallies(tallies: ReadonlyMap<string, Tally>, filter: ExchangeFilter): number {
  let total = 0
  for (const { sample, count } of tallies.values()) if (passes(sample, filter)) total += count
  return total
}
