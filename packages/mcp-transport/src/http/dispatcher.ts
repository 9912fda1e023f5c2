// oxlint-disable-next-line typescript/triple-slash-reference -- also programs that compile only this file need it
/// <reference path="../../../internal/src/undici-parts.d.ts" />
import { readFileSync, statSync } from 'node:fs'
import type { Socket } from 'node:net'
import * as nodeTls from 'node:tls' // a named import of a new function fails on an old Node.js, before the check
import { assertOptions, BoundedMap, check } from '@x/internal'
import type { Checks } from '@x/internal'
import type { Dispatcher } from 'undici'
// Parts of 'undici', because the whole is three times as large. Bun replaces that name with its own module, which has no
// dispatchers.
import api from 'undici/lib/api/index.js'
import buildConnector from 'undici/lib/core/connect.js'
import Agent from 'undici/lib/dispatcher/agent.js'
import DispatcherBase from 'undici/lib/dispatcher/dispatcher.js'
import EnvHttpProxyAgent from 'undici/lib/dispatcher/env-http-proxy-agent.js'
import OriginPool from 'undici/lib/dispatcher/pool.js'
import { TransportError } from '../transport-error.ts'

Object.assign(DispatcherBase.prototype, api) // as the main module of undici does

export interface CreateDispatcherOptions {
  /** Limit for opening a connection, including TLS, in milliseconds. @default 10_000 */
  readonly connectMs?: number | undefined
  /**
   * Maximum number of connections for requests per origin. Listening streams have their own. @default unlimited
   */
  readonly connections?: number | undefined
}

const optionChecks: Checks<CreateDispatcherOptions> = {
  connectMs: check.number(),
  connections: check.number(1),
}

/**
 * Creates the default dispatcher of a transport: HTTP/1.1 with one pool for requests and one for listening
 * streams, so that a stream never blocks a connection for requests. Uses the proxy of `HTTP_PROXY`,
 * `HTTPS_PROXY` and `NO_PROXY`, and the certificate authorities of `SSL_CERT_FILE` and `NODE_EXTRA_CA_CERTS`.
 * Clients may share a dispatcher; close it at the end.
 *
 * @throws TransportError `CONFIG` if `SSL_CERT_FILE` cannot be read, or a proxy variable is not a URL
 * @throws TypeError for an unknown or invalid option
 * @example
 * ```ts
 * import { createDispatcher, StreamableHttpTransport } from '@x/mcp-transport'
 *
 * const dispatcher = createDispatcher() // shared by transports; close it after them
 * const shop = new StreamableHttpTransport('https://shop.example/mcp', { dispatcher })
 * const hotel = new StreamableHttpTransport('https://hotel.example/mcp', { dispatcher })
 * await dispatcher.close()
 * ```
 */
export function createDispatcher(options: CreateDispatcherOptions = {}): Dispatcher {
  assertOptions('createDispatcher()', options, optionChecks)
  const settings = { ...options, ca: certificateAuthorities() }
  const pool = hasProxy(process.env) ? proxyPool : lazyPool
  return new TwoPools(pool(settings, true), pool(settings, false))
}

interface PoolSettings extends CreateDispatcherOptions {
  readonly ca: string[] | undefined
}

function agentOptions(
  { connectMs = 10_000, connections, ca }: PoolSettings,
  isForRequests: boolean,
): Agent.Options & { readonly connect: buildConnector.BuildOptions } {
  return {
    allowH2: false, // POSTs of an HTTP/2 session wait for an open GET stream (cloudflare/agents #1965)
    bodyTimeout: 0,
    headersTimeout: 0,
    keepAliveTimeout: KEEP_ALIVE_MS,
    keepAliveMaxTimeout: 60_000, // NAT devices drop connections that are unused for longer (copilot-cli #3257)
    connect: {
      allowH2: false,
      timeout: connectMs,
      keepAlive: true,
      keepAliveInitialDelay: 30_000,
      ...(ca && { ca }),
    },
    ...(isForRequests && connections !== undefined && { connections }),
  }
}

/** Returns the dispatcher for the next request. */
type Pool = () => Dispatcher

/** Uses the proxies that the environment names now. */
function proxyPool(settings: PoolSettings, isForRequests: boolean): Pool {
  const tls = settings.ca === undefined ? {} : { ca: settings.ca }
  const options = agentOptions(settings, isForRequests)
  const agent = new EnvHttpProxyAgent({ ...options, requestTls: tls, proxyTls: tls })
  return () => agent
}

/** Creates an agent for the first request, and drops it with its last connection: most clients are idle. */
function lazyPool(settings: PoolSettings, isForRequests: boolean): Pool {
  let current: Agent | undefined
  return () => (current ??= makeAgent())

  function makeAgent(): Agent {
    const agent = new WatchedAgent(settings, isForRequests)
    const dropIfEmpty = (): void => {
      // An agent reports its connections also after a new agent has replaced it.
      if (agent !== current) return
      const isEmpty = Object.keys(agent.stats).length === 0
      // A closed agent stays, because it refuses later requests.
      if (isEmpty && !agent.closed && !agent.destroyed) current = undefined
    }
    return agent.on('disconnect', dropIfEmpty).on('connectionError', dropIfEmpty)
  }
}

/** Records which requests were not completely sent, and how long servers keep unused connections. */
class WatchedAgent extends Agent {
  #lastRequestAt = 0

  constructor(settings: PoolSettings, isForRequests: boolean) {
    const options = agentOptions(settings, isForRequests)
    const connect = buildConnector(options.connect)
    super({
      ...options,
      connect: (target, callback) => {
        connect(target, (...[error, socket]) => {
          if (error !== null) return callback(error, null)
          watchForUnsent(socket)
          callback(null, socket)
        })
      },
      factory: (origin, given) => {
        const keepAliveTimeout = keepAliveFor(String(origin), KEEP_ALIVE_MS)
        return new OriginPool(origin, Object.assign({}, given, { keepAliveTimeout }))
      },
    })
    if (!isForRequests) return // streams have other lifetimes than connections
    this.on('disconnect', (origin, _targets, error) => {
      if (error.code !== 'UND_ERR_SOCKET') return // this side closed it
      learnKeepAlive(origin.origin, Date.now() - this.#lastRequestAt)
    })
  }

  override dispatch(
    options: Dispatcher.DispatchOptions,
    handler: Dispatcher.DispatchHandler,
  ): boolean {
    this.#lastRequestAt = Date.now() // ten times as fast as performance.now()
    return super.dispatch(options, handler)
  }
}

const PROXY_VARIABLES = ['http_proxy', 'https_proxy', 'HTTP_PROXY', 'HTTPS_PROXY']
const PROXY_PROTOCOLS = new Set(['http:', 'https:', 'socks:', 'socks5:'])

function hasProxy(env: NodeJS.ProcessEnv): boolean {
  const named = PROXY_VARIABLES.filter((name) => env[name])
  for (const name of named) {
    if (PROXY_PROTOCOLS.has(URL.parse(env[name] ?? '')?.protocol ?? '')) continue
    const message = `${name} is not the URL of a proxy: write it as http://host:port, or unset it`
    throw new TransportError('CONFIG', message)
  }
  return named.length > 0
}

/** Dispatch option: the object that sends the request. */
export const SENDER: unique symbol = Symbol('sender')

/** Sends a request through a dispatcher, usually as its handler. */
export interface Sender {
  /** The request is a stream that stays open, although it may be a POST. */
  readonly isLongLived: boolean
  /**
   * Called if the sender is the handler itself. From then on, it is certain that `onRequestStart` is called before any
   * part of the request is written, and that nothing is written if `onRequestStart` aborts the request. A handler of an
   * interceptor, or the dispatcher of another package, may call `onRequestStart` later.
   */
  onQueued(): void
}

class TwoPools extends DispatcherBase {
  readonly #requests: Pool
  readonly #streams: Pool

  constructor(requests: Pool, streams: Pool) {
    super()
    this.#requests = requests
    this.#streams = streams
  }

  override dispatch(
    options: Dispatcher.DispatchOptions & { readonly [SENDER]?: Sender },
    handler: Dispatcher.DispatchHandler & Partial<Sender>,
  ): boolean {
    const sender = options[SENDER]
    const isStream = options.method === 'GET' || sender?.isLongLived === true
    if (sender === handler) sender.onQueued()
    return (isStream ? this.#streams : this.#requests)().dispatch(options, handler)
  }

  override async close(): Promise<void> {
    await Promise.all([this.#requests().close(), this.#streams().close()])
  }

  override async destroy(): Promise<void> {
    await Promise.all([this.#requests().destroy(), this.#streams().destroy()])
  }
}

/** Shared by all dispatchers: a bundle has several hundred kilobytes. */
let last: { readonly path: string; readonly mtimeMs: number; readonly list: string[] } | undefined

/**
 * Returns the trusted certificate authorities if `SSL_CERT_FILE` names a file. As with OpenSSL they replace the
 * built-in ones; those of `NODE_EXTRA_CA_CERTS` are added. Returns `undefined` otherwise: then Node uses its
 * own list.
 *
 * @throws TransportError `CONFIG` if the file cannot be read. Trusting other authorities instead would be
 * unsafe.
 */
export function certificateAuthorities(
  env: Readonly<Record<string, string | undefined>> = process.env,
): string[] | undefined {
  const path = env['SSL_CERT_FILE']
  if (path === undefined || path === '') return undefined
  try {
    const { mtimeMs } = statSync(path)
    if (last?.path !== path || last.mtimeMs !== mtimeMs) {
      const list = [readFileSync(path, 'utf8'), ...nodeTls.getCACertificates('extra')]
      last = { path, mtimeMs, list }
    }
    return last.list
  } catch (cause) {
    const message = `SSL_CERT_FILE names ${path}, which cannot be read: correct or unset it`
    throw new TransportError('CONFIG', message, { cause })
  }
}

const KEEP_ALIVE_MS = 4_000
/** An earlier closing is a restart or a broken connection, not a keep-alive limit. */
const SHORTEST_MS = 500
/** Two closings after similar idle times indicate a limit; restarts happen at any time. */
const ALIKE = 0.25
/** Share of the limit, so that a request arrives before the server closes the connection. */
const SAFE_SHARE = 0.75

interface Closing {
  /** Idle time of the last connection that the server closed, in milliseconds. */
  readonly afterMs: number
  /** Undefined before two closings were alike. */
  readonly limitMs: number | undefined
}

/** Closings of connections by servers, by origin, for all dispatchers of the process. */
const closings = new BoundedMap<string, Closing>(1000)

/**
 * Returns the limit for unused connections to an origin, in milliseconds. A `Keep-Alive` header of the server
 * overrides it; many servers close connections earlier without such a header.
 */
export function keepAliveFor(origin: string, defaultMs: number): number {
  return Math.min(closings.get(origin)?.limitMs ?? defaultMs, defaultMs)
}

/** Records that the server closed a connection after it was unused for `unusedMs`. */
export function learnKeepAlive(origin: string, unusedMs: number): void {
  if (unusedMs < SHORTEST_MS) return
  const { afterMs = 0, limitMs } = closings.get(origin) ?? {}
  const isRule = Math.abs(afterMs - unusedMs) <= unusedMs * ALIKE
  const limit = isRule ? Math.min(afterMs, unusedMs, limitMs ?? unusedMs) * SAFE_SHARE : limitMs
  closings.set(origin, { afterMs: unusedMs, limitMs: limit })
}

/** Errors of connections that ended before the operating system accepted the complete request. */
const unsent = new WeakSet<object>()

/**
 * Returns whether a connection ended before the complete request left this process. Then the server has at most
 * a part of the JSON and has not executed the request.
 */
export function wasUnsent(error: unknown): boolean {
  return typeof error === 'object' && error !== null && unsent.has(error)
}

/**
 * Observes the end of a connection. Call it before undici gets the socket, so that this listener runs first.
 * `bytesWritten` is not usable: it counts bytes passed to libuv, even if the write fails. On Bun nothing is
 * concluded, because its sockets do not use libuv; such calls stay unknown.
 */
function watchForUnsent(socket: Socket): void {
  if (process.versions['bun'] !== undefined) return
  // TLS sockets also write their own data, such as alerts. For them, only buffered bytes are a proof.
  const isPlain = !(socket instanceof nodeTls.TLSSocket)
  socket.on('error', (error) => {
    const isWriteRefused = isPlain && 'syscall' in error && error.syscall === 'write'
    if (isWriteRefused || socket.writableLength > 0) unsent.add(error)
  })
  socket.on('end', () => {
    if (socket.writableLength === 0) return
    socket.destroy(new Error('The server closed the connection before it had the whole request'))
  })
}
