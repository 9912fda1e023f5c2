import { readFileSync, statSync } from 'node:fs'
import type { Socket } from 'node:net'
import { getCACertificates, TLSSocket } from 'node:tls'
import { assertOptions, check } from '@x/internal'
import type { Checks } from '@x/internal'
// The file, not 'undici': Bun replaces the name with a module of its own, which cannot dispatch.
import { Agent, buildConnector, Dispatcher, EnvHttpProxyAgent, Pool } from 'undici/index.js'
import { TransportError } from '../transport-error.ts'

export interface CreateDispatcherOptions {
  /** Limit for opening a connection, TLS included. @default 10_000 */
  readonly connectMs?: number | undefined
  /** Most connections for requests per origin; listening streams have their own. @default unlimited */
  readonly connections?: number | undefined
}

const optionChecks: Checks<CreateDispatcherOptions> = {
  connectMs: check.number(),
  connections: check.number(1),
}

/**
 * The dispatcher that a transport makes for itself: HTTP/1.1, pooled, one pool for requests and one for
 * listening streams, so that an open stream never takes a connection away from requests. Uses the proxy
 * that `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` name, and the certificate authorities of
 * `SSL_CERT_FILE` and `NODE_EXTRA_CA_CERTS`. Share one among clients; close it at the end.
 *
 * @throws TransportError `CONFIG` if `SSL_CERT_FILE` cannot be read, or a proxy variable is not a URL
 * @throws TypeError for an option that is unknown or cannot be used
 */
export function createDispatcher(options: CreateDispatcherOptions = {}): Dispatcher {
  assertOptions('createDispatcher()', options, optionChecks)
  const { connectMs, connections } = options
  const settings = { connectMs, connections, ca: certificateAuthorities() }
  if (!hasProxy(process.env)) {
    return new TwoPools(new PoolInUse(settings, true), new PoolInUse(settings, false))
  }
  return new TwoPools(
    proxied(poolOptions(settings, true), settings),
    proxied(poolOptions(settings, false), settings),
  )
}

interface PoolSettings extends CreateDispatcherOptions {
  readonly ca: string[] | undefined
}

type PoolOptions = Agent.Options & {
  readonly connect: buildConnector.BuildOptions
  readonly keepAliveTimeout: number
}

function poolOptions(
  { connectMs = 10_000, connections, ca }: PoolSettings,
  isForRequests: boolean,
): PoolOptions {
  return {
    allowH2: false, // POSTs of an HTTP/2 session stall behind an open GET stream (cloudflare/agents #1965)
    bodyTimeout: 0,
    headersTimeout: 0,
    keepAliveTimeout: 4_000,
    keepAliveMaxTimeout: 60_000, // longer, and NAT boxes have forgotten the connection (copilot-cli #3257)
    connect: {
      allowH2: false,
      timeout: connectMs,
      keepAlive: true,
      keepAliveInitialDelay: 30_000,
      ...(ca === undefined ? {} : { ca }),
    },
    ...(isForRequests && connections !== undefined ? { connections } : {}),
  }
}

/** Gives the dispatcher of one kind of request. */
interface DispatcherSource {
  current(): Dispatcher
}

/** Proxies are those of the environment as it is now. */
function proxied(options: Agent.Options, { ca }: PoolSettings): DispatcherSource {
  const tls = ca === undefined ? {} : { ca }
  const agent = new EnvHttpProxyAgent({ ...options, requestTls: tls, proxyTls: tls })
  return { current: () => agent }
}

/** Creates an agent for the first request, and drops it with its last connection: most clients are idle. */
class PoolInUse implements DispatcherSource {
  readonly #settings: PoolSettings
  readonly #isForRequests: boolean
  #agent: Agent | undefined

  constructor(settings: PoolSettings, isForRequests: boolean) {
    this.#settings = settings
    this.#isForRequests = isForRequests
  }

  current(): Agent {
    return (this.#agent ??= this.#make())
  }

  #make(): Agent {
    const options = poolOptions(this.#settings, this.#isForRequests)
    const agent = new WatchedAgent(options, this.#isForRequests)
    const dropIfEmpty = (): void => {
      // An agent reports each of its connections, also when a new agent has taken its place.
      if (agent !== this.#agent) return
      const isEmpty = Object.keys(agent.stats).length === 0
      // A closed agent stays, because it refuses later requests.
      if (isEmpty && !agent.closed && !agent.destroyed) this.#agent = undefined
    }
    return agent.on('disconnect', dropIfEmpty).on('connectionError', dropIfEmpty)
  }
}

/** Knows which requests were not sent whole, and how long servers keep connections that are not used. */
class WatchedAgent extends Agent {
  #lastRequestAt = 0

  constructor(options: PoolOptions, isForRequests: boolean) {
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
        const keepAliveTimeout = keepAliveFor(String(origin), options.keepAliveTimeout)
        return new Pool(origin, Object.assign({}, given, { keepAliveTimeout }))
      },
    })
    if (!isForRequests) return // how long a stream lived says nothing
    this.on('disconnect', (origin, _targets, error) => {
      if (error.code !== 'UND_ERR_SOCKET') return // this side closed it
      learnKeepAlive(origin.origin, performance.now() - this.#lastRequestAt)
    })
  }

  override dispatch(
    options: Dispatcher.DispatchOptions,
    handler: Dispatcher.DispatchHandler,
  ): boolean {
    this.#lastRequestAt = performance.now()
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

/** Marks the request of a stream that stays open although it is a POST. */
export const LONG_LIVED: unique symbol = Symbol('long-lived')

class TwoPools extends Dispatcher {
  readonly #requests: DispatcherSource
  readonly #streams: DispatcherSource

  constructor(requests: DispatcherSource, streams: DispatcherSource) {
    super()
    this.#requests = requests
    this.#streams = streams
  }

  override dispatch(
    options: Dispatcher.DispatchOptions,
    handler: Dispatcher.DispatchHandler,
  ): boolean {
    const isStream = options.method === 'GET' || LONG_LIVED in options
    return (isStream ? this.#streams : this.#requests).current().dispatch(options, handler)
  }

  override async close(): Promise<void> {
    await Promise.all([this.#requests.current().close(), this.#streams.current().close()])
  }

  override async destroy(): Promise<void> {
    await Promise.all([this.#requests.current().destroy(), this.#streams.current().destroy()])
  }
}

/** One list for all dispatchers: a bundle is some hundred kilobytes. */
let last: { readonly path: string; readonly mtimeMs: number; readonly list: string[] } | undefined

/**
 * The certificate authorities to trust, where the environment names a file (`SSL_CERT_FILE`): as with
 * OpenSSL they take the place of the built-in ones, and those of `NODE_EXTRA_CA_CERTS` come on top.
 * Without it, `undefined`: Node's own list, which knows `NODE_EXTRA_CA_CERTS` already.
 *
 * @throws TransportError `CONFIG` if the file cannot be read: trusting others instead would be a surprise.
 */
export function certificateAuthorities(
  env: Readonly<Record<string, string | undefined>> = process.env,
): string[] | undefined {
  const path = env['SSL_CERT_FILE']
  if (path === undefined || path === '') return undefined
  try {
    const { mtimeMs } = statSync(path)
    if (last?.path !== path || last.mtimeMs !== mtimeMs) {
      const list = [readFileSync(path, 'utf8'), ...getCACertificates('extra')]
      last = { path, mtimeMs, list }
    }
    return last.list
  } catch (cause) {
    const message = `SSL_CERT_FILE names ${path}, which cannot be read: correct or unset it`
    throw new TransportError('CONFIG', message, { cause })
  }
}

/** What is known of an origin that closes connections without saying when. */
interface Observed {
  /** How long the last connection that the server closed had not been used, in milliseconds. */
  readonly closedAfterMs: number
  readonly limitMs: number | undefined
}

/** By origin: one for all dispatchers of the process. */
const observed = new Map<string, Observed>()

const MAX_ORIGINS = 1000
/** What closes earlier is a restart or a broken connection, and no rule. */
const SHORTEST_MS = 500
/** Two closings after nearly the same time are a rule; restarts come at any time. */
const ALIKE = 0.25
/** Leaves time for a request to arrive before the server closes the connection. */
const SAFE_SHARE = 0.75

/**
 * Limit for connections that are not used, in milliseconds. A `Keep-Alive` header of the server takes the place
 * of this limit; many servers close connections earlier without such a header.
 */
export function keepAliveFor(origin: string, defaultMs: number): number {
  return Math.min(observed.get(origin)?.limitMs ?? defaultMs, defaultMs)
}

/** The server closed a connection that had not been used for about so long. */
export function learnKeepAlive(origin: string, unusedMs: number): void {
  if (unusedMs < SHORTEST_MS) return
  const before = observed.get(origin)
  const isRule =
    before !== undefined && Math.abs(before.closedAfterMs - unusedMs) <= unusedMs * ALIKE
  const limitMs = isRule
    ? Math.min(before.closedAfterMs, unusedMs, before.limitMs ?? unusedMs) * SAFE_SHARE
    : before?.limitMs
  observed.delete(origin)
  observed.set(origin, { closedAfterMs: unusedMs, limitMs })
  for (const oldest of observed.keys()) {
    if (observed.size <= MAX_ORIGINS) break
    observed.delete(oldest)
  }
}

/** Errors of connections that ended before the operating system had taken the whole request. */
const unsent = new WeakSet<object>()

/**
 * Whether the connection ended while a part of the request was still on this side. The server cannot have the
 * whole request then: its JSON is cut off, and nothing was executed.
 */
export function wasUnsent(error: unknown): boolean {
  return typeof error === 'object' && error !== null && unsent.has(error)
}

/**
 * Looks at how a connection ends. To be called before undici gets the socket, so that this hears of an end
 * first. `bytesWritten` says nothing here: it counts what was handed to libuv, also if the write fails.
 * Nothing is concluded on Bun, whose sockets are not those of libuv: such calls stay unknown.
 */
function watchForUnsent(socket: Socket): void {
  if (process.versions['bun'] !== undefined) return
  // A TLS socket also writes for itself, such as alerts: there, only bytes that still wait are a proof.
  const isPlain = !(socket instanceof TLSSocket)
  socket.on('error', (error) => {
    const isWriteRefused = isPlain && 'syscall' in error && error.syscall === 'write'
    if (isWriteRefused || socket.writableLength > 0) unsent.add(error)
  })
  socket.on('end', () => {
    if (socket.writableLength === 0) return
    socket.destroy(new Error('The server closed the connection before it had the whole request'))
  })
}
