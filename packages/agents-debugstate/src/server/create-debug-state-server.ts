import { once } from 'node:events'
import { createServer } from 'node:http'
import type { Server, ServerResponse } from 'node:http'
import { getRequestListener } from '@hono/node-server'
import { createDebugStateHandler } from './debug-state-handler.ts'
import type { DebugStateHandlerOptions, FetchHandler } from './debug-state-handler.ts'
import { DebugStateServerError } from './debug-state-server-error.ts'
import { isLoopback } from './loopback.ts'
import { problem } from './problem.ts'

export interface DebugStateServerOptions extends DebugStateHandlerOptions {
  /** How long `close()` waits for requests in flight before it cuts them. @default 5000 */
  readonly closeMs?: number | undefined
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
   * Takes no new connections, waits for requests in flight, at most `closeMs`. Idempotent. The store stays open: it is
   * the caller's.
   */
  close(): Promise<void>
}

/** The debug-state service. Opens nothing until `listen()`. */
export function createDebugStateServer(options: DebugStateServerOptions): DebugStateServer {
  const { closeMs = 5000 } = options
  const isOpen = options.tokens === undefined
  const fetch = createDebugStateHandler(options)
  const inFlight = new InFlight()
  let server: Server | undefined
  let closing: Promise<void> | undefined

  async function listen({ port = 0, host = '127.0.0.1' }: ListenOptions = {}): Promise<string> {
    if (closing) throw new DebugStateServerError('CLOSED', 'The server is closed')
    if (server) throw new DebugStateServerError('LISTENING', 'The server listens already')
    if (isOpen && !isLoopback(host)) {
      const message = `Without tokens the service listens on loopback only, not on ${host}: pass \`tokens\``
      throw new DebugStateServerError('NOT_LOOPBACK', message)
    }
    const starting = createServer(
      TIMEOUTS,
      getRequestListener(isOpen ? loopbackOnly(fetch) : fetch),
    )
    starting.prependListener('request', (_, answer) => inFlight.add(answer))
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
    return `http://${host.includes(':') ? `[${host}]` : host}:${bound}`
  }

  function close(): Promise<void> {
    closing ??= server ? closeGracefully(server, inFlight, closeMs) : Promise.resolve()
    return closing
  }

  return { fetch, listen, close, [Symbol.asyncDispose]: close }
}

/** A client that sends its request slower than this is cut: the service has small requests only. */
const TIMEOUTS = { headersTimeout: 5000, requestTimeout: 10_000, connectionsCheckingInterval: 1000 }

/** A page of a foreign site can give its own name to this address; it cannot name a loopback host. */
function loopbackOnly(fetch: FetchHandler): FetchHandler {
  return async (request) =>
    isLoopback(new URL(request.url).hostname)
      ? fetch(request)
      : problem('FORBIDDEN', 'Without tokens the service answers under loopback names only')
}

/**
 * Keeps answers that are not out yet, so that the last one on each connection can end it. Not in a `Set`: one
 * that thousands go through each second leaves its outgrown tables to the next full collection, with all that
 * was in them.
 */
class InFlight {
  readonly #answers: (ServerResponse | undefined)[] = []
  readonly #free: number[] = []
  #isEnding = false

  add(answer: ServerResponse): void {
    if (this.#isEnding) answer.shouldKeepAlive = false
    const place = this.#free.pop() ?? this.#answers.length
    this.#answers[place] = answer
    answer.once('close', () => {
      this.#answers[place] = undefined
      this.#free.push(place)
    })
  }

  /** Otherwise a kept-alive connection would hold the server open after its last answer. */
  endConnections(): void {
    this.#isEnding = true
    for (const answer of this.#answers) if (answer) answer.shouldKeepAlive = false
  }
}

async function closeGracefully(server: Server, inFlight: InFlight, closeMs: number): Promise<void> {
  const closed = once(server, 'close')
  inFlight.endConnections()
  server.close()
  const limit = setTimeout(() => server.closeAllConnections(), closeMs)
  try {
    await closed
  } finally {
    clearTimeout(limit)
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
