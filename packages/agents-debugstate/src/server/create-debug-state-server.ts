import { once } from 'node:events'
import { createServer } from 'node:http'
import type { Server, ServerOptions } from 'node:http'
import { getRequestListener, RequestError } from '@hono/node-server'
import type { Http2Bindings, HttpBindings } from '@hono/node-server'
import { assertOptions, check, CodedError, isLoopback } from '@x/internal'
import type { Checks } from '@x/internal'
import { createDebugStateHandler } from './debug-state-handler.ts'
import type {
  DebugStateLimits,
  DebugStateServerOptions,
  FetchHandler,
} from './debug-state-handler.ts'
import { createProblem } from './protocol.ts'
import { createAccessCheck } from './tokens.ts'

const optionChecks: Checks<DebugStateServerOptions> = {
  store: check.required({
    ...check.methods('get', 'put', 'delete'),
    takes: 'a store, such as new SqliteDebugStateStore(path)',
  }),
  tokens: check.list,
  limits: check.section({ ttlMs: check.number(1) } satisfies Checks<DebugStateLimits>),
  logger: check.methods('debug', 'info', 'warn', 'error'),
}

export interface ListenOptions {
  /** 0 means any free port. @default 0 */
  readonly port?: number | undefined
  /** @default '127.0.0.1' */
  readonly host?: string | undefined
}

export interface DebugStateServer extends AsyncDisposable {
  /**
   * The service as a function from request to response, for a framework or a test. It needs no `listen()`, and
   * opens nothing. Without `tokens`, every caller has access.
   */
  readonly fetch: FetchHandler
  /**
   * Serves `fetch` over HTTP, and resolves to the base URL of the service, such as `http://127.0.0.1:4711`. Can be
   * called once. Without `tokens` it listens on loopback only, and answers only requests with a loopback host
   * name. So a web page that points its own host name to this address gets 403.
   *
   * @throws DebugStateServerError
   */
  listen(options?: ListenOptions): Promise<string>
  /**
   * Takes no new connections and waits for requests in flight, for at most 5 s. Idempotent. The caller
   * closes the store.
   */
  close(): Promise<void>
}

/** Why a server does not listen. Stable: callers switch on it. The documentation says what to do about each code. */
export type DebugStateServerErrorCode =
  | 'NOT_LOOPBACK' // without tokens, only this machine may reach it
  | 'ADDRESS_IN_USE' // another process has the port
  | 'LISTEN_FAILED' // any other failure of the operating system
  | 'LISTENING' // the server listens already
  | 'CLOSED' // the server was closed

/** The server could not listen. The message says what to do. */
export class DebugStateServerError extends CodedError<DebugStateServerErrorCode> {
  override readonly name = 'DebugStateServerError'
}

/**
 * Creates the debug-state service (PROTOCOL.md). It opens nothing until `listen()`.
 *
 * @throws TypeError for an empty or wrong list of `tokens`, and for options that are unknown or have a wrong value
 * @example
 * ```ts
 * import { createDebugStateServer, SqliteDebugStateStore } from '@x/agents-debugstate/server'
 *
 * const store = new SqliteDebugStateStore('.debugstate/state.db')
 * const server = createDebugStateServer({ store })
 * console.log(await server.listen())
 * await server.close()
 * await store.close()
 * ```
 */
export function createDebugStateServer(options: DebugStateServerOptions): DebugStateServer {
  assertOptions('createDebugStateServer()', options, optionChecks)
  const { tokens, logger } = options
  const fetch = createDebugStateHandler(options, tokens && createAccessCheck(tokens))
  let server: Server | undefined
  let closing: Promise<void> | undefined

  async function answer(request: Request, { outgoing }: Bindings): Promise<Response> {
    try {
      // A foreign web page can point its own host name to this address, but not `localhost`.
      if (tokens || isLoopback(new URL(request.url).hostname)) return await fetch(request)
      logger?.warn({ method: request.method, status: 403 }, 'request with a foreign host name')
      const detail = 'Without tokens the service answers loopback host names only'
      return createProblem('FORBIDDEN', detail)
    } finally {
      // Each connection ends with its answer. Otherwise kept-alive connections would hold the server open.
      if (closing && 'shouldKeepAlive' in outgoing) outgoing.shouldKeepAlive = false
    }
  }

  async function listen({ port = 0, host = '127.0.0.1' }: ListenOptions = {}): Promise<string> {
    if (closing) throw new DebugStateServerError('CLOSED', 'The server is closed')
    if (server) throw new DebugStateServerError('LISTENING', 'The server listens already')
    if (!tokens && !isLoopback(host)) {
      const message = `Without tokens the service listens on loopback only, not on ${host}: pass \`tokens\``
      throw new DebugStateServerError('NOT_LOOPBACK', message)
    }
    server = createServer(SERVER_OPTIONS, getRequestListener(answer, { errorHandler: answerError }))
    server.timeout = SILENCE_MS
    server.maxConnections = MAX_CONNECTIONS
    try {
      server.listen(port, host)
      await once(server, 'listening')
    } catch (error) {
      server = undefined
      throw createListenError(error, `${host}:${port}`)
    }
    const address = server.address()
    const bound = typeof address === 'object' && address !== null ? address.port : port
    const url = `http://${host.includes(':') ? `[${host}]` : host}:${bound}`
    logger?.info({ url }, 'listening')
    if (!tokens) logger?.warn({}, 'no tokens: every user of this machine may read and write')
    return url
  }

  const close = (): Promise<void> => (closing ??= server ? stop(server) : Promise.resolve())

  async function stop(listening: Server): Promise<void> {
    logger?.info({}, 'stopping')
    const closed = once(listening, 'close')
    listening.close()
    const limit = setTimeout(() => {
      logger?.warn({}, 'requests that took too long were cut')
      listening.closeAllConnections()
    }, CLOSE_MS)
    await closed
    clearTimeout(limit)
    logger?.info({}, 'stopped')
  }

  return { fetch, listen, close, [Symbol.asyncDispose]: close }
}

type Bindings = HttpBindings | Http2Bindings

/** Node.js answers a request that is too slow with 408, and headers over the limit with 431. */
const SERVER_OPTIONS: ServerOptions = {
  headersTimeout: 5000,
  requestTimeout: 10_000,
  keepAliveTimeout: 5000,
  maxHeaderSize: 16_384,
}

/** A connection without traffic for this time is closed: the client does not read, or the store does not answer. */
const SILENCE_MS = 30_000
const MAX_CONNECTIONS = 10_000
/** Time that `close()` waits for requests in flight before it cuts them. */
const CLOSE_MS = 5000

function answerError(error: unknown): Response {
  return error instanceof RequestError
    ? createProblem('BAD_REQUEST', 'The path or the `Host` header cannot be read')
    : createProblem('STORE_FAILED', 'The request could not be handled; try again later')
}

function createListenError(cause: unknown, address: string): DebugStateServerError {
  if (cause instanceof Error && 'code' in cause && cause.code === 'EADDRINUSE') {
    const message = `${address} is in use: choose another port, or 0`
    return new DebugStateServerError('ADDRESS_IN_USE', message, { cause })
  }
  return new DebugStateServerError('LISTEN_FAILED', `Cannot listen on ${address}`, { cause })
}
