import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { isRecord } from '@x/internal'
import { deferred } from '@x/internal/testing'
import type { Deferred } from '@x/internal/testing'
import { resetConnection } from '../loopback-server.ts'
import type { Mutable } from '../recording.ts'
import { readRequest, RecordingServer } from '../recording-server.ts'
import type { Exchange, ExchangeEnd, ExchangeFilter, ExchangeMark } from './exchange.ts'
import { ExchangeLog, MessageRecord, pairsOf } from './exchange.ts'
import type { InjectionRule } from './faults.ts'
import { faultFrom } from './faults.ts'
import { forward } from './forwarding.ts'

/** An exchange started, got the head of its answer, or ended. */
export interface ExchangeEvent {
  readonly type: 'started' | 'answered' | 'ended'
  readonly exchange: Exchange
}

export interface RecordingProxyOptions {
  /**
   * Number of exchanges that are kept and counted; the oldest are forgotten when they have ended.
   *
   * @default all
   */
  readonly keepExchanges?: number | undefined
  /**
   * Number of bytes of each body that an exchange keeps, beside the headers, in `request` and
   * `response`. @default undefined: exchanges have neither
   */
  readonly keepBodies?: number | undefined
}

/**
 * Starts a proxy in front of `target` on a free port of 127.0.0.1. A function is called for each
 * exchange, and once at the start; host and port of the exchange come from it.
 *
 * @example
 * ```ts
 * import { startLegacyServer, startRecordingProxy } from '@x/mcp-testing'
 *
 * await using server = await startLegacyServer()
 * await using proxy = await startRecordingProxy(server.url) // the client connects to proxy.url
 * proxy.inject({ match: ({ toolName }) => toolName === 'cart_add', times: 1, action: 'reset-after' })
 * ```
 */
export async function startRecordingProxy(
  target: string | (() => string),
  options: RecordingProxyOptions = {},
): Promise<RecordingProxy> {
  const proxy = new RecordingProxy(target, options)
  await proxy.start()
  return proxy
}

/**
 * A reverse proxy that records the requests of a client and injects faults. Each exchange has its own
 * connection to the server, so that a server that closes or crashes changes no count of the client's
 * connections. Requests are read whole first, because rules look into them; answers stream.
 */
export class RecordingProxy extends RecordingServer<Exchange, ExchangeLog> {
  readonly #targetOf: () => URL
  readonly #keepBodies: number | undefined
  readonly #rules = new Set<{ readonly rule: InjectionRule; left: number }>()
  readonly #listeners = new Set<(event: ExchangeEvent) => void>()
  readonly #upstreams = new Set<{ destroy(): unknown }>()
  /** Connections of clients that have carried a request, with a function that ends the latest one. */
  readonly #open = new Map<Socket, (() => void) | undefined>()
  readonly #stopping = new AbortController()
  /** Resolved by `heal()`. */
  #partition: Deferred<void> | undefined

  constructor(target: string | (() => string), options: RecordingProxyOptions) {
    super(new ExchangeLog(options.keepExchanges ?? Infinity))
    this.#keepBodies = options.keepBodies
    this.#targetOf = () => targetFrom(typeof target === 'string' ? target : target())
  }

  override async start(): Promise<void> {
    const { pathname, search } = this.#targetOf()
    await super.start(`${pathname}${search}`)
  }

  get exchanges(): readonly Exchange[] {
    return this.log.entries
  }

  /** TCP connections of clients that are open and have carried an exchange. */
  get openConnections(): number {
    return this.#open.size
  }

  count(filter: ExchangeFilter = {}): number {
    return this.log.count(filter)
  }

  mark(): ExchangeMark {
    return this.log.mark(() => this.connections)
  }

  /** Adds a rule; of those that match, the oldest acts. Returns a function that removes it. */
  inject(rule: InjectionRule): () => void {
    const active = { rule, left: rule.times ?? Infinity }
    if (active.left > 0) this.#rules.add(active)
    return () => void this.#rules.delete(active)
  }

  /**
   * Half-open network: connections stay open, new ones are accepted, and nothing passes until
   * `heal()`. Requests that arrive meanwhile reach the server after it, unless the client has left.
   */
  partition(): void {
    this.#partition ??= deferred()
  }

  heal(): void {
    this.#partition?.resolve()
    this.#partition = undefined
  }

  /**
   * Resets all connections of clients. With `'both'`, those to the server end too, as when a network
   * fails; else the server completes its answers to POSTs.
   */
  dropConnections(sides: 'clients' | 'both' = 'clients'): void {
    for (const [socket, cut] of this.#open) {
      cut?.()
      resetConnection(socket)
    }
    if (sides === 'both') for (const upstream of this.#upstreams) upstream.destroy()
  }

  /** Calls `listener` when an exchange starts, is answered, and ends. Returns a function that removes it. */
  on(listener: (event: ExchangeEvent) => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** Ends all connections and timers. */
  override async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping.abort()
    this.heal()
    for (const upstream of this.#upstreams) upstream.destroy()
    await super[Symbol.asyncDispose]()
  }

  /** The oldest rule that matches. Counts its use. */
  #ruleFor(exchange: Exchange): InjectionRule | undefined {
    for (const active of this.#rules) {
      if (!active.rule.match(exchange)) continue
      if (--active.left <= 0) this.#rules.delete(active)
      return active.rule
    }
    return undefined
  }

  #emit(event: ExchangeEvent): void {
    for (const listener of new Set(this.#listeners)) listener(event)
  }

  protected async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { socket } = request
    const startedAt = Date.now()
    const clock = performance.now()
    if (!this.#open.has(socket)) socket.once('close', () => this.#open.delete(socket))
    this.#open.set(socket, undefined)
    const read = await readRequest(request, this.server.connectionOf(request))
    if (read === undefined) return
    const { body, message, recorded } = read
    const args = recorded.toolName === undefined ? undefined : message?.params?.['arguments']
    const key = isRecord(args) ? args['key'] : undefined
    const exchange: Mutable<Exchange> = {
      ...recorded,
      n: this.log.total + 1,
      path: (request.url ?? '/').replace(/\?.*$/, ''),
      key: typeof key === 'string' ? key : undefined,
      assignedSessionId: undefined,
      delivered: 'none',
      fault: undefined,
      startedAt,
      ms: undefined,
      end: undefined,
      request: undefined,
      response: undefined,
    }
    if (this.#keepBodies !== undefined) {
      const sent = new MessageRecord(this.#keepBodies)
      sent.addHeaders(pairsOf(request.rawHeaders))
      sent.addBytes(body)
      exchange.request = sent
      const answer = new MessageRecord(this.#keepBodies)
      answer.follow(response, () => (exchange.response = answer))
    }
    const ended = (end: ExchangeEnd): void => {
      if (exchange.end !== undefined) return
      exchange.end = end
      exchange.ms = performance.now() - clock
      this.log.changed(exchange)
      this.#emit({ type: 'ended', exchange })
    }
    // A socket that closed while the request was read is not counted again.
    if (this.#open.has(socket)) this.#open.set(socket, () => ended('cut'))
    response.once('close', () => ended(response.writableFinished ? 'complete' : 'client-gone'))

    const rule = this.#ruleFor(exchange)?.action
    this.log.add(exchange)
    this.#emit({ type: 'started', exchange })
    const action = typeof rule === 'function' ? await rule(exchange) : rule
    const fault = action === undefined ? undefined : faultFrom(action)
    if (fault !== undefined) {
      exchange.fault = fault.name
      this.log.changed(exchange)
    }
    await forward(
      {
        request,
        response,
        body,
        exchange,
        target: this.#targetOf(),
        upstreams: this.#upstreams,
        stopping: this.#stopping.signal,
        healed: () => this.#partition?.promise,
        answered: (status) => {
          exchange.status = status
          this.log.changed(exchange)
          this.#emit({ type: 'answered', exchange })
        },
        ended,
      },
      fault,
    )
  }
}

function targetFrom(url: string): URL {
  const target = new URL(url)
  if (target.protocol !== 'http:') {
    throw new TypeError(`The proxy forwards to http: URLs only, not ${target.protocol}`)
  }
  return target
}
