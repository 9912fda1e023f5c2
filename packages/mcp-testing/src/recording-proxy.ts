import { request as httpRequest } from 'node:http'
import type { ClientRequest, IncomingMessage, ServerResponse } from 'node:http'
import { sendAnswer } from './canned-answer.ts'
import type { Exchange, ExchangeEnd, ExchangeFilter } from './exchange.ts'
import { countOf } from './exchange.ts'
import { forwardedHeaders } from './forwarded-headers.ts'
import type { InjectionRule } from './injection-rule.ts'
import { listenOnLoopback } from './loopback-server.ts'
import type { WaitForOptions } from './recording.ts'
import { Recording } from './recording.ts'
import { header, requestBody } from './request-body.ts'
import { rpcMessageFrom, toolNameOf } from './rpc-message.ts'

/** The exchanges since a moment. */
export interface ExchangeMark {
  exchanges(): readonly Exchange[]
  count(filter?: ExchangeFilter): number
  /** TCP connections that the client opened since. */
  connections(): number
  /** TCP connections that the client opened since and used for a POST. */
  postConnections(): number
  waitFor(matches: (exchange: Exchange) => boolean, options?: WaitForOptions): Promise<Exchange>
}

/** What a listener is told. */
export interface ExchangeEvent {
  readonly type: 'started' | 'ended'
  readonly exchange: Exchange
}

/** Options of {@link startRecordingProxy}. */
export interface RecordingProxyOptions {
  /** Rules that hold from the start. @default none */
  readonly rules?: readonly InjectionRule[] | undefined
}

/**
 * A reverse proxy that records what a client does, and breaks it on demand. Client connections live
 * on their own: each exchange has its own connection to the server, so that a server that closes or
 * crashes changes no count. Answers stream; requests are read whole first, because rules look into
 * them.
 */
export interface RecordingProxy extends AsyncDisposable {
  /** Loopback, with path and query of the target. */
  readonly url: string
  readonly exchanges: readonly Exchange[]
  /** TCP connections of clients so far. */
  readonly connections: number
  /** Those of them that carried at least one POST. */
  readonly postConnections: number
  /** Those of them that carried at least one GET. */
  readonly getConnections: number
  count(filter?: ExchangeFilter): number
  mark(): ExchangeMark
  /** Adds a rule; of those that match, the oldest acts. Returns its own undo. */
  inject(rule: InjectionRule): () => void
  /** Told when an exchange starts and ends. Returns its own undo. */
  on(listener: (event: ExchangeEvent) => void): () => void
  /** The first exchange that matches; asked again when an answer begins and when it ends. */
  waitFor(matches: (exchange: Exchange) => boolean, options?: WaitForOptions): Promise<Exchange>
  /** Cuts everything. Idempotent. */
  stop(): Promise<void>
}

type Mutable<T> = { -readonly [Key in keyof T]: T[Key] }

interface ActiveRule {
  readonly rule: InjectionRule
  left: number
}

/** Starts a proxy in front of `targetUrl` on a free port of 127.0.0.1. */
export async function startRecordingProxy(
  targetUrl: string,
  options: RecordingProxyOptions = {},
): Promise<RecordingProxy> {
  const target = new URL(targetUrl)
  if (target.protocol !== 'http:') throw new TypeError('The proxy speaks to http: servers only')

  const recording = new Recording<Exchange>('exchanges through the proxy')
  const rules = new Set<ActiveRule>()
  const listeners = new Set<(event: ExchangeEvent) => void>()
  const upstreams = new Set<ClientRequest>()

  const tell = (event: ExchangeEvent): void => {
    for (const listener of new Set(listeners)) listener(event)
  }

  const actionFor = (exchange: Exchange): InjectionRule['action'] | undefined => {
    for (const active of rules) {
      if (!active.rule.match(exchange)) continue
      if (--active.left <= 0) rules.delete(active)
      return active.rule.action
    }
    return undefined
  }

  const server = await listenOnLoopback((request, response) => {
    exchangeOf(request, response).catch((error: unknown) => {
      request.socket.destroy()
      throw error // a rule or a listener of the test is wrong: it shall fail
    })
  })

  async function exchangeOf(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const startedAt = Date.now()
    const clock = performance.now()
    const body = await requestBody(request).catch(() => undefined)
    if (body === undefined) return // the client left in the middle of its request
    const message = request.method === 'POST' ? rpcMessageFrom(body.toString()) : undefined
    const exchange: Mutable<Exchange> = {
      n: recording.entries.length + 1,
      connection: server.connectionOf(request),
      httpMethod: request.method ?? '',
      path: (request.url ?? '/').replace(/\?.*$/, ''),
      rpcMethod: message?.method,
      rpcId: message?.id,
      toolName: toolNameOf(message),
      sessionId: header(request, 'mcp-session-id'),
      protocolVersion: header(request, 'mcp-protocol-version'),
      lastEventId: header(request, 'last-event-id'),
      startedAt,
    }

    const answered = (status: number): void => {
      exchange.status = status
      recording.changed(exchange)
    }
    const ended = (end: ExchangeEnd): void => {
      if (exchange.end !== undefined) return
      exchange.end = end
      exchange.ms = performance.now() - clock
      recording.changed(exchange)
      tell({ type: 'ended', exchange })
    }
    const cut = (end: ExchangeEnd): void => {
      ended(end)
      request.socket.resetAndDestroy()
    }

    response.once('close', () => ended(response.writableFinished ? 'complete' : 'client-gone'))

    const rule = actionFor(exchange)
    if (rule !== undefined) exchange.injected = true
    recording.add(exchange)
    tell({ type: 'started', exchange })
    const action = typeof rule === 'function' ? await rule(exchange) : (rule ?? 'forward')
    if (response.destroyed) return // the client did not wait for the rule

    if (typeof action === 'object') {
      answered(action.status)
      sendAnswer(response, action, exchange.rpcId)
      return
    }
    if (action === 'hang') return
    if (action === 'reset-before') {
      cut('cut')
      return
    }

    const upstream = httpRequest({
      agent: false, // a connection of its own, so that a stale one is never to blame
      host: target.hostname,
      port: target.port === '' ? 80 : Number(target.port),
      method: exchange.httpMethod,
      path: request.url,
      headers: forwardedHeaders(request.rawHeaders, target.host),
    })
    upstreams.add(upstream)
    upstream.once('close', () => upstreams.delete(upstream))
    response.once('close', () => {
      // After 'reset-after' and 'cut-stream' the server goes on with its work.
      if (exchange.end !== 'cut') upstream.destroy()
    })
    upstream.on('error', (error: NodeJS.ErrnoException) => {
      if (exchange.end !== undefined) return
      if (error.code === 'ECONNREFUSED') {
        answered(502)
        sendAnswer(response, { status: 502, body: 'The proxy could not reach the server' })
      } else {
        cut('server-gone')
      }
    })
    upstream.once('response', (answer) => {
      answer.on('error', () => cut('server-gone'))
      if (action === 'reset-after') {
        // The stream of a GET has no end to wait for.
        if (exchange.httpMethod === 'GET') {
          cut('cut')
          upstream.destroy()
        } else {
          answer.once('end', () => cut('cut')).resume()
        }
        return
      }
      const assigned = answer.headers['mcp-session-id']
      if (typeof assigned === 'string') exchange.assignedSessionId = assigned
      answered(answer.statusCode ?? 502)
      response.writeHead(answer.statusCode ?? 502, forwardedHeaders(answer.rawHeaders))
      response.flushHeaders()
      if (action === 'cut-stream') {
        if (exchange.httpMethod === 'GET') upstream.destroy()
        else answer.resume()
        ended('cut')
        request.socket.destroySoon() // after the head; a reset could overtake it
        return
      }
      answer.pipe(response)
    })
    upstream.end(body)
  }

  /** Connections with a number above `after` that carried such a request. */
  const connectionsWith = (httpMethod: string, after = 0): number =>
    new Set(
      recording.entries
        .filter((one) => one.httpMethod === httpMethod && one.connection > after)
        .map((one) => one.connection),
    ).size

  const inject = (rule: InjectionRule): (() => void) => {
    const { times = Number.POSITIVE_INFINITY } = rule
    const active: ActiveRule = { rule, left: times }
    if (times > 0) rules.add(active)
    return () => void rules.delete(active)
  }
  for (const rule of options.rules ?? []) inject(rule)

  const stop = async (): Promise<void> => {
    for (const upstream of upstreams) upstream.destroy()
    await server.close()
    recording.close()
  }

  return {
    url: `http://127.0.0.1:${server.port}${target.pathname}${target.search}`,
    exchanges: recording.entries,
    get connections() {
      return server.connections
    },
    get postConnections() {
      return connectionsWith('POST')
    },
    get getConnections() {
      return connectionsWith('GET')
    },
    count: (filter = {}) => countOf(recording.entries, filter),
    mark() {
      const from = recording.entries.length
      const opened = server.connections
      const since = (): readonly Exchange[] => recording.entries.slice(from)
      return {
        exchanges: since,
        count: (filter = {}) => countOf(since(), filter),
        connections: () => server.connections - opened,
        postConnections: () => connectionsWith('POST', opened),
        waitFor: (matches, wait) => recording.waitFor(matches, { from, ...wait }),
      }
    },
    inject,
    on(listener) {
      const entry = (event: ExchangeEvent): void => listener(event)
      listeners.add(entry)
      return () => void listeners.delete(entry)
    },
    waitFor: (matches, wait) => recording.waitFor(matches, wait),
    stop,
    [Symbol.asyncDispose]: stop,
  }
}
