import { assertOptions, check } from '@x/internal'
import type { Checks } from '@x/internal'
// The file, not 'undici': Bun replaces the name with a module of its own, which cannot dispatch.
import { Agent, buildConnector, Dispatcher, EnvHttpProxyAgent, Pool } from 'undici/index.js'
import { TransportError } from '../transport-error.ts'
import { certificateAuthorities } from './certificate-authorities.ts'
import { keepAliveFor, learnKeepAlive } from './keep-alive.ts'
import { watchForUnsent } from './unsent-request.ts'

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
