import { assertOptions, check } from '@x/internal'
import type { Checks } from '@x/internal'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { Server, ServerOptions } from 'node:http'
import { getRequestListener, RequestError } from '@hono/node-server'
import { TokenTable } from './access.ts'
import type { DebugStateTokenGrant } from './access.ts'
import { createDebugStateHandler } from './debug-state-handler.ts'
import type {
  DebugStateLimits,
  DebugStateHandlerOptions,
  FetchHandler,
} from './debug-state-handler.ts'
import { DebugStateServerError } from './debug-state-server-error.ts'
import type { DebugStateLogger } from './debug-state-logger.ts'
import { closeGracefully, InFlight } from './in-flight.ts'
import { isLoopback } from './loopback.ts'
import { problem } from './problem.ts'
import { refuseUnreadable } from './unreadable-request.ts'

export interface DebugStateServerOptions extends DebugStateHandlerOptions {
  /** How long `close()` waits for requests in flight before it cuts them. @default 5000 */
  readonly closeMs?: number | undefined
  readonly timeouts?: DebugStateTimeouts | undefined
}

/** How long the service waits for a client. One that is slower is answered with 408. */
export interface DebugStateTimeouts {
  /** For request line and headers. At most `requestMs`. @default 5000 */
  readonly headersMs?: number | undefined
  /** For the request with its body. @default 10000 */
  readonly requestMs?: number | undefined
  /** For the next request on a kept-alive connection, which is then closed without a word. @default 5000 */
  readonly idleMs?: number | undefined
}

const optionChecks: Checks<DebugStateServerOptions> = {
  store: check.required({
    ...check.methods('get', 'put', 'delete', 'list'),
    takes: 'a store, such as new SqliteDebugStateStore(path)',
  }),
  tokens: check.list,
  limits: check.section({
    bodyBytes: check.number(1),
    ttlMs: check.number(1),
    listedKeys: check.number(),
  } satisfies Checks<DebugStateLimits>),
  pathPrefix: check.string,
  logger: check.methods('debug', 'info', 'warn', 'error'),
  onError: check.func,
  now: check.func,
  closeMs: check.number(),
  timeouts: check.section({
    headersMs: check.number(),
    requestMs: check.number(),
    idleMs: check.number(),
  } satisfies Checks<DebugStateTimeouts>),
}

export interface ListenOptions {
  /** 0 takes a free one. @default 0 */
  readonly port?: number | undefined
  /** @default '127.0.0.1' */
  readonly host?: string | undefined
}

export interface DebugStateServer extends AsyncDisposable {
  /**
   * The service as a function from request to response, for a framework or a test. Needs no `listen()` and
   * opens nothing. Without `tokens` it lets everybody in who can call it.
   */
  readonly fetch: FetchHandler
  /**
   * Serves `fetch` over HTTP and resolves to the base URL of the service, for example `http://127.0.0.1:4711`. Once.
   * Without `tokens` it listens on loopback only, and answers only requests that name a loopback host: a
   * web page that gives its own name to this address gets 403.
   *
   * @throws DebugStateServerError
   */
  listen(options?: ListenOptions): Promise<string>
  /**
   * Puts another list in the place of `tokens`, from the next request on.
   *
   * @throws TypeError for a list that `tokens` would not take, which changes nothing, and for a service that
   * has none: it might listen where only tokens guard it, or where it must not
   */
  replaceTokens(tokens: readonly DebugStateTokenGrant[]): void
  /**
   * Takes no new connections, waits for requests in flight, at most `closeMs`. Idempotent. The store stays open: it is
   * the caller's.
   */
  close(): Promise<void>
}

/**
 * The debug-state service (PROTOCOL.md). Opens nothing until `listen()`.
 *
 * @throws TypeError for `tokens` that could let nobody in, or anybody
 */
export function createDebugStateServer(options: DebugStateServerOptions): DebugStateServer {
  assertOptions('createDebugStateServer()', options, optionChecks)
  const { closeMs = 5000, timeouts, logger } = options
  const tokens = options.tokens && new TokenTable(options.tokens)
  const fetch = createDebugStateHandler(options, tokens)
  const inFlight = new InFlight()
  let server: Server | undefined
  let closing: Promise<void> | undefined

  async function listen({ port = 0, host = '127.0.0.1' }: ListenOptions = {}): Promise<string> {
    if (closing) throw new DebugStateServerError('CLOSED', 'The server is closed')
    if (server) throw new DebugStateServerError('LISTENING', 'The server listens already')
    if (tokens === undefined && !isLoopback(host)) {
      const message = `Without tokens the service listens on loopback only, not on ${host}: pass \`tokens\``
      throw new DebugStateServerError('NOT_LOOPBACK', message)
    }
    const starting = createServer(
      serverOptionsFrom(timeouts),
      getRequestListener(tokens ? fetch : loopbackOnly(fetch, logger), {
        errorHandler: badRequest,
      }),
    )
    starting.timeout = SILENCE_MS
    starting.maxConnections = MAX_CONNECTIONS
    starting.prependListener('request', (_, answer) => inFlight.add(answer))
    starting.on('clientError', (error, socket) => {
      if (inFlight.hasBegun(socket)) socket.destroy()
      else refuseUnreadable(error, socket)
    })
    server = starting
    try {
      starting.listen(port, host)
      await once(starting, 'listening')
    } catch (error) {
      server = undefined
      throw listenErrorFrom(error, `${host}:${port}`)
    }
    const address = starting.address()
    const bound = typeof address === 'object' && address !== null ? address.port : port
    const url = `http://${host.includes(':') ? `[${host}]` : host}:${bound}`
    logger?.info({ url }, 'listening')
    if (!tokens) logger?.warn({}, 'no tokens: whoever is on this machine may read and write')
    return url
  }

  function replaceTokens(grants: readonly DebugStateTokenGrant[]): void {
    if (!tokens) throw new TypeError('The service was made without `tokens`, and stays so')
    tokens.replace(grants)
    logger?.info({ tokens: grants.length }, 'tokens replaced')
  }

  function close(): Promise<void> {
    closing ??= server ? stop(server) : Promise.resolve()
    return closing
  }

  async function stop(listening: Server): Promise<void> {
    logger?.info({ inFlight: inFlight.size }, 'stopping')
    const cut = await closeGracefully(listening, inFlight, closeMs)
    if (cut > 0) logger?.warn({ cut }, 'stopped, with requests that took too long')
    else logger?.info({}, 'stopped')
  }

  return { fetch, listen, replaceTokens, close, [Symbol.asyncDispose]: close }
}

function serverOptionsFrom(timeouts: DebugStateTimeouts = {}): ServerOptions {
  const { requestMs = 10_000, idleMs = 5000 } = timeouts
  const { headersMs = Math.min(5000, requestMs) } = timeouts
  return {
    headersTimeout: headersMs,
    requestTimeout: requestMs,
    keepAliveTimeout: idleMs,
    connectionsCheckingInterval: Math.min(1000, requestMs),
    maxHeaderSize: 16_384,
    requireHostHeader: false, // told as a problem, like all else
  }
}

/** A connection on which nothing moves is cut: a client that reads no answer, a store that gives none. */
const SILENCE_MS = 30_000
const MAX_CONNECTIONS = 10_000

function badRequest(error: unknown): Response {
  if (!(error instanceof RequestError)) {
    return problem('STORE_FAILED', 'The request could not be handled; try again later')
  }
  return problem('BAD_REQUEST', 'The path or the `Host` header cannot be read')
}

/** A page of a foreign site can give its own name to this address; it cannot name a loopback host. */
function loopbackOnly(fetch: FetchHandler, logger: DebugStateLogger | undefined): FetchHandler {
  return async (request) => {
    if (isLoopback(new URL(request.url).hostname)) return fetch(request)
    logger?.warn({ method: request.method, status: 403 }, 'request under a foreign host name')
    return problem('FORBIDDEN', 'Without tokens the service answers under loopback names only')
  }
}

function listenErrorFrom(error: unknown, address: string): DebugStateServerError {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  return code === 'EADDRINUSE'
    ? new DebugStateServerError(
        'ADDRESS_IN_USE',
        `${address} is in use: choose another port, or 0`,
        {
          cause: error,
        },
      )
    : new DebugStateServerError('LISTEN_FAILED', `Cannot listen on ${address}`, { cause: error })
}
