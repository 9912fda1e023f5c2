import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { deferred } from '@x/internal/testing'
import type { Deferred } from '@x/internal/testing'
import { listenOnLoopback } from '../loopback-server.ts'
import type { Mutable, WaitForOptions } from '../recording.ts'
import { header, requestBody } from '../request-body.ts'
import type { RpcMessage } from '../rpc-message.ts'
import { isObject, rpcMessageFrom, toolNameOf } from '../rpc-message.ts'
import type { Exchange, ExchangeEnd, ExchangeFilter, ExchangeMark } from './exchange.ts'
import { ExchangeLog } from './exchange.ts'
import type { InjectionRule } from './faults.ts'
import { faultFrom } from './faults.ts'
import { forward } from './forwarding.ts'

/** An exchange started, or ended. */
export interface ExchangeEvent {
  readonly type: 'started' | 'ended'
  readonly exchange: Exchange
}

/** Options of {@link startRecordingProxy}. */
export interface RecordingProxyOptions {
  /** Rules that hold from the start. @default none */
  readonly rules?: readonly InjectionRule[] | undefined
  /**
   * Number of exchanges kept in `exchanges`; the oldest are forgotten when they have ended. `count`
   * and the numbers of connections stay right. @default all
   */
  readonly keepExchanges?: number | undefined
}

/**
 * A reverse proxy that records the requests of a client and injects faults. Each exchange has its own
 * connection to the server, so that a server that closes or crashes changes no count of the client's
 * connections. Requests are read whole first, because rules look into them; answers stream.
 */
export interface RecordingProxy extends AsyncDisposable {
  /** On 127.0.0.1, with path and query of the target. */
  readonly url: string
  readonly exchanges: readonly Exchange[]
  /** TCP connections of clients so far. */
  readonly connections: number
  /** Those of them that are open and have carried an exchange. */
  readonly openConnections: number
  /** Those of them that carried at least one POST. */
  readonly postConnections: number
  /** Those of them that carried at least one GET. */
  readonly getConnections: number
  count(filter?: ExchangeFilter): number
  mark(): ExchangeMark
  /** Adds a rule; of those that match, the oldest acts. Returns a function that removes it. */
  inject(rule: InjectionRule): () => void
  /**
   * Half-open network: connections stay open, new ones are accepted, and nothing passes until
   * `heal()`. Requests that arrive meanwhile reach the server after it, unless the client has left.
   */
  partition(): void
  heal(): void
  /** Resets all connections of clients. */
  dropConnections(): void
  /** Calls `listener` when an exchange starts and ends. Returns a function that removes it. */
  on(listener: (event: ExchangeEvent) => void): () => void
  /** The first exchange that matches; asked again when an answer begins and when it ends. */
  waitFor(matches: (exchange: Exchange) => boolean, options?: WaitForOptions): Promise<Exchange>
  /** Ends all connections and timers. Idempotent. */
  stop(): Promise<void>
}

/**
 * Starts a proxy in front of `target` on a free port of 127.0.0.1. A function is called for each
 * exchange, and once at the start; host and port of the exchange come from it.
 */
export async function startRecordingProxy(
  target: string | (() => string),
  options: RecordingProxyOptions = {},
): Promise<RecordingProxy> {
  const { rules: initialRules = [], keepExchanges = Number.POSITIVE_INFINITY } = options
  const first = targetFrom(typeof target === 'string' ? target : target())
  const targetOf = typeof target === 'string' ? () => first : () => targetFrom(target())
  const log = new ExchangeLog(keepExchanges)
  const rules = new Set<{ readonly rule: InjectionRule; left: number }>()
  const listeners = new Set<(event: ExchangeEvent) => void>()
  const upstreams = new Set<{ destroy(): unknown }>()
  /** Connections of clients that have carried a request, with a function that ends the latest one. */
  const open = new Map<Socket, (() => void) | undefined>()
  const stopping = new AbortController()
  /** Resolved by `heal()`. */
  let partition: Deferred<void> | undefined

  const emit = (event: ExchangeEvent): void => {
    for (const listener of new Set(listeners)) listener(event)
  }
  const actionFor = (exchange: Exchange): InjectionRule['action'] | undefined => {
    for (const entry of rules) {
      if (!entry.rule.match(exchange)) continue
      if (--entry.left <= 0) rules.delete(entry)
      return entry.rule.action
    }
    return undefined
  }

  const server = await listenOnLoopback((request, response) => {
    serve(request, response).catch((error: unknown) => {
      request.socket.destroy()
      throw error // a rule or a listener is wrong: the test run must fail
    })
  })

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { socket } = request
    const startedAt = Date.now()
    const clock = performance.now()
    const reused = open.has(socket)
    if (!reused) socket.once('close', () => open.delete(socket))
    open.set(socket, undefined)
    const body = await requestBody(request).catch(() => undefined)
    if (body === undefined) return // the client left in the middle of its request
    const message = request.method === 'POST' ? rpcMessageFrom(body.toString()) : undefined
    const { key } = toolArguments(message)
    const exchange: Mutable<Exchange> = {
      n: log.total + 1,
      connection: server.connectionOf(request),
      reused,
      httpMethod: request.method ?? '',
      path: (request.url ?? '/').replace(/\?.*$/, ''),
      rpcMethod: message?.method,
      rpcId: message?.id,
      toolName: toolNameOf(message),
      key: typeof key === 'string' ? key : undefined,
      sessionId: header(request, 'mcp-session-id'),
      protocolVersion: header(request, 'mcp-protocol-version'),
      lastEventId: header(request, 'last-event-id'),
      principal: header(request, 'authorization')?.replace(/^Bearer /i, ''),
      delivered: 'none',
      startedAt,
    }
    const ended = (end: ExchangeEnd): void => {
      if (exchange.end !== undefined) return
      exchange.end = end
      exchange.ms = performance.now() - clock
      log.changed(exchange)
      emit({ type: 'ended', exchange })
    }
    open.set(socket, () => ended('cut'))
    response.once('close', () => ended(response.writableFinished ? 'complete' : 'client-gone'))

    const rule = actionFor(exchange)
    if (rule !== undefined) exchange.injected = true
    log.add(exchange)
    emit({ type: 'started', exchange })
    const action = typeof rule === 'function' ? await rule(exchange) : rule
    const fault = action === undefined ? undefined : faultFrom(action, exchange)
    if (fault !== undefined) {
      exchange.fault = fault.name
      log.changed(exchange)
    }
    await forward(
      {
        request,
        response,
        body,
        exchange,
        target: targetOf(),
        upstreams,
        stopping: stopping.signal,
        healed: () => partition?.promise,
        answered(status) {
          exchange.status = status
          log.changed(exchange)
        },
        ended,
      },
      fault,
    )
  }

  const inject = (rule: InjectionRule): (() => void) => {
    const { times = Number.POSITIVE_INFINITY } = rule
    const entry = { rule, left: times }
    if (times > 0) rules.add(entry)
    return () => void rules.delete(entry)
  }
  for (const rule of initialRules) inject(rule)

  const heal = (): void => {
    partition?.resolve()
    partition = undefined
  }

  const stop = async (): Promise<void> => {
    stopping.abort()
    heal()
    for (const upstream of upstreams) upstream.destroy()
    await server.close()
    log.close()
  }

  return {
    url: `http://127.0.0.1:${server.port}${first.pathname}${first.search}`,
    exchanges: log.entries,
    get openConnections() {
      // A socket may close while its request is read, and be added after that.
      return [...open.keys()].filter((socket) => !socket.destroyed).length
    },
    get connections() {
      return server.connections
    },
    get postConnections() {
      return log.connectionsWith('POST')
    },
    get getConnections() {
      return log.connectionsWith('GET')
    },
    count: (filter = {}) => log.count(filter),
    mark: () => log.mark(() => server.connections),
    inject,
    partition() {
      partition ??= deferred()
    },
    heal,
    dropConnections() {
      for (const [socket, cut] of open) {
        cut?.()
        socket.resetAndDestroy()
      }
    },
    on(listener) {
      const entry = (event: ExchangeEvent): void => listener(event)
      listeners.add(entry)
      return () => void listeners.delete(entry)
    },
    waitFor: (matches, wait) => log.waitFor(matches, wait),
    stop,
    [Symbol.asyncDispose]: stop,
  }
}

function targetFrom(url: string): URL {
  const target = new URL(url)
  if (target.protocol !== 'http:') {
    throw new TypeError(`The proxy forwards to http: URLs only, not ${target.protocol}`)
  }
  return target
}

function toolArguments(message: RpcMessage | undefined): Readonly<Record<string, unknown>> {
  const args = message?.method === 'tools/call' ? message.params?.['arguments'] : undefined
  return isObject(args) ? args : {}
}
