import { once } from 'node:events'
import { createServer } from 'node:http'
import type { IncomingMessage, RequestListener } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

/** Longer than any test: idle connections stay open. */
const KEEP_ALIVE_MS = 600_000
/** Attempts to listen on the same port again after a crash. */
const RELISTEN_ATTEMPTS = 40

/** An HTTP server on 127.0.0.1 that numbers its connections and can crash. */
export interface TestServer extends AsyncDisposable {
  readonly url: string
  /** TCP connections accepted so far, also those before a restart. */
  readonly connections: number
  /** Number of the TCP connection that carries a request; the first one is 1. */
  connectionOf(request: IncomingMessage): number
  /** A crash: every socket is reset, the port stays. Resolves when it listens again. */
  restart(): Promise<void>
  /** Ends the server and its connections, as `await using` does. */
  close(): Promise<void>
}

/**
 * Starts `handler` on a free port of 127.0.0.1. It answers every path; `path` is that of the `url`.
 *
 * @example
 * ```ts
 * import { startTestServer } from '@x/mcp-testing'
 *
 * await using server = await startTestServer((_request, response) => {
 *   response.writeHead(502).end('Bad gateway')
 * })
 * ```
 */
export async function startTestServer(
  handler: RequestListener,
  path = '/mcp',
): Promise<TestServer> {
  const sockets = new Set<Socket>()
  const numbers = new WeakMap<Socket, number>()
  let connections = 0
  const closing = new AbortController()

  const server = createServer({ keepAliveTimeout: KEEP_ALIVE_MS, requestTimeout: 0 }, handler)
  server.on('connection', (socket) => {
    sockets.add(socket)
    numbers.set(socket, ++connections)
    socket.once('close', () => sockets.delete(socket))
    socket.on('error', () => {}) // clients in tests reset connections
  })

  const listen = async (onPort: number): Promise<number> => {
    server.listen(onPort, '127.0.0.1')
    await once(server, 'listening') // rejects when the port is taken
    return (server.address() as AddressInfo).port
  }

  const stop = async (end: (socket: Socket) => void): Promise<void> => {
    if (!server.listening) return
    // First the sockets: `server.close()` sends a FIN on idle connections, and a crash sends none.
    for (const socket of sockets) end(socket)
    const stopped = new Promise<void>((resolve) => server.close(() => resolve()))
    await stopped
  }

  const port = await listen(0)
  const close = async (): Promise<void> => {
    closing.abort()
    await stop((socket) => socket.destroy())
  }

  return {
    url: `http://127.0.0.1:${port}${path}`,
    get connections() {
      return connections
    },
    connectionOf: (request) => numbers.get(request.socket) ?? 0,
    async restart() {
      await stop(resetConnection)
      for (let attempt = 1; !closing.signal.aborted; attempt++) {
        try {
          return void (await listen(port))
        } catch (error) {
          // An outgoing connection of another process may hold the port for a moment.
          if (attempt >= RELISTEN_ATTEMPTS) throw error
          await sleep(25)
        }
      }
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** Resets a TCP connection: the other side gets ECONNRESET, and bytes on their way may be lost. */
export function resetConnection(socket: Socket | null): void {
  if (socket === null) return
  // libuv cannot reset a connection while it sends the FIN. Node would then keep the connection open for ever.
  const isClosing = socket.writableEnded && socket.writableLength === 0 && !socket.writableFinished
  if (isClosing) socket.destroy()
  else socket.resetAndDestroy()
}
