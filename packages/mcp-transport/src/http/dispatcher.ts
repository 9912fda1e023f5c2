import { Agent, Dispatcher, EnvHttpProxyAgent } from 'undici'
import { certificateAuthorities } from './certificate-authorities.ts'

export interface CreateDispatcherOptions {
  /** Limit for opening a connection, TLS included. @default 10_000 */
  readonly connectMs?: number | undefined
  /** Most connections for requests per origin; listening streams have their own. @default unlimited */
  readonly connections?: number | undefined
}

/**
 * The dispatcher that a transport makes for itself: HTTP/1.1, pooled, one pool for requests and one for
 * listening streams, so that an open stream never takes a connection away from requests. Uses the proxy
 * that `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` name, and the certificate authorities of
 * `SSL_CERT_FILE` and `NODE_EXTRA_CA_CERTS`. Share one among clients; close it at the end.
 *
 * @throws TransportError `CONFIG` if `SSL_CERT_FILE` cannot be read.
 */
export function createDispatcher(options: CreateDispatcherOptions = {}): Dispatcher {
  return new TwoPools(
    pool({ ...options, bodyTimeout: 0 }),
    pool({ connectMs: options.connectMs, bodyTimeout: 0 }),
  )
}

interface PoolOptions extends CreateDispatcherOptions {
  readonly bodyTimeout: number
}

function pool({ connectMs = 10_000, connections, bodyTimeout }: PoolOptions): Dispatcher {
  const ca = certificateAuthorities()
  const tls = ca === undefined ? {} : { ca }
  const options = {
    allowH2: false, // POSTs of an HTTP/2 session stall behind an open GET stream (cloudflare/agents #1965)
    bodyTimeout,
    headersTimeout: 0,
    keepAliveTimeout: 4_000,
    keepAliveMaxTimeout: 60_000, // longer, and NAT boxes have forgotten the connection (copilot-cli #3257)
    connect: { timeout: connectMs, keepAlive: true, keepAliveInitialDelay: 30_000, ...tls },
    ...(connections === undefined ? {} : { connections }),
  }
  return hasProxy(process.env)
    ? new EnvHttpProxyAgent({ ...options, requestTls: tls, proxyTls: tls })
    : new Agent(options)
}

function hasProxy(env: NodeJS.ProcessEnv): boolean {
  return ['http_proxy', 'https_proxy', 'HTTP_PROXY', 'HTTPS_PROXY'].some((name) => env[name])
}

/** Marks the request of a stream that stays open although it is a POST. */
export const LONG_LIVED: unique symbol = Symbol('long-lived')

class TwoPools extends Dispatcher {
  readonly #requests: Dispatcher
  readonly #streams: Dispatcher

  constructor(requests: Dispatcher, streams: Dispatcher) {
    super()
    this.#requests = requests
    this.#streams = streams
  }

  override dispatch(
    options: Dispatcher.DispatchOptions,
    handler: Dispatcher.DispatchHandler,
  ): boolean {
    const isStream = options.method === 'GET' || LONG_LIVED in options
    return (isStream ? this.#streams : this.#requests).dispatch(options, handler)
  }

  override async close(): Promise<void> {
    await Promise.all([this.#requests.close(), this.#streams.close()])
  }

  override async destroy(): Promise<void> {
    await Promise.all([this.#requests.destroy(), this.#streams.destroy()])
  }
}
