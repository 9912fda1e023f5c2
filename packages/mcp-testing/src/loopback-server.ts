import { createServer } from 'node:http'
import type { IncomingMessage, RequestListener } from 'node:http'
import type { Socket } from 'node:net'

/** Longer than any test or demo: a connection that ends was ended by somebody, never by idleness. */
const KEEP_ALIVE_MS = 600_000

/** How often a port that should still be ours is tried again after a crash. */
const RELISTEN_ATTEMPTS = 40

/** A `node:http` server on 127.0.0.1 that numbers its connections and can crash. */
export interface LoopbackServer {
  readonly port: number
  /** TCP connections accepted so far, crashes included. */
  readonly connections: number
  /** Number of the connection a request came on; the first one is 1. */
  connectionOf(request: IncomingMessage): number
  /** Every socket is reset and the port is free. Ends when the port listens again. */
  restart(): Promise<void>
  /** Every socket is destroyed. Idempotent. */
  close(): Promise<void>
}

/** Listens on a free port of 127.0.0.1. */
export async function listenOnLoopback(handler: RequestListener): Promise<LoopbackServer> {
  const sockets = new Set<Socket>()
  const numbers = new WeakMap<Socket, number>()
  let connections = 0
  const closing = new AbortController()

  const server = createServer({ keepAliveTimeout: KEEP_ALIVE_MS, requestTimeout: 0 }, handler)
  server.on('connection', (socket) => {
    sockets.add(socket)
    numbers.set(socket, ++connections)
    socket.once('close', () => sockets.delete(socket))
    socket.on('error', () => {}) // a peer that resets is what these servers are for
  })

  const listen = (port: number): Promise<number> =>
    new Promise((resolve, reject) => {
      server.once('error', reject)
      server.listen(port, '127.0.0.1', () => {
        server.off('error', reject)
        const address = server.address()
        if (address === null || typeof address === 'string') throw new TypeError('Not a TCP server')
        resolve(address.port)
      })
    })

  const stop = async (end: (socket: Socket) => void): Promise<void> => {
    if (!server.listening) return
    const stopped = new Promise<void>((resolve) => server.close(() => resolve()))
    for (const socket of sockets) end(socket)
    await stopped
  }

  const port = await listen(0)

  return {
    port,
    get connections() {
      return connections
    },
    connectionOf: (request) => numbers.get(request.socket) ?? 0,
    async restart() {
      await stop((socket) => socket.resetAndDestroy())
      for (let attempt = 1; !closing.signal.aborted; attempt++) {
        try {
          await listen(port)
          return
        } catch (error) {
          // An outgoing connection of anybody may hold the port for a moment.
          if (attempt >= RELISTEN_ATTEMPTS) throw error
          await new Promise((resolve) => setTimeout(resolve, 25))
        }
      }
    },
    async close() {
      closing.abort()
      await stop((socket) => socket.destroy())
    },
  }
}

/** Options of {@link startTestServer}. */
export interface TestServerOptions {
  /** Path of the `url`. @default '/mcp' */
  readonly path?: string | undefined
}

/** A bare HTTP server with one handler. */
export interface TestServer extends AsyncDisposable {
  readonly url: string
  /** TCP connections accepted so far. */
  readonly connections: number
  /** A crash: every socket is reset, the port stays. Ends when it listens again. */
  restart(): Promise<void>
}

/** Starts `handler` on a free port of 127.0.0.1, with nothing in between. It answers every path. */
export async function startTestServer(
  handler: RequestListener,
  options: TestServerOptions = {},
): Promise<TestServer> {
  const { path = '/mcp' } = options
  const server = await listenOnLoopback(handler)
  return {
    url: `http://127.0.0.1:${server.port}${path}`,
    get connections() {
      return server.connections
    },
    restart: () => server.restart(),
    [Symbol.asyncDispose]: () => server.close(),
  }
}
