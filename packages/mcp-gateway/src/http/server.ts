import type { RequestListener, Server, ServerOptions } from 'node:http'
import type { Socket } from 'node:net'

import { GatewayError } from '../errors.ts'
import type { HttpSettings, ListenOptions } from '../options.ts'
import type { Authenticator } from './auth/authenticator.ts'
import { checkAuthFits } from './auth/combine.ts'
import { nodeListener, type NodeListenerOptions } from './node-edge.ts'

/** A gateway that listens on one address. */
export interface GatewayListener extends AsyncDisposable {
  readonly host: string
  /** The port in use, also where 0 was given. */
  readonly port: number
  /** URL of the MCP endpoint. With `probesOnly`: the origin, which `/readyz` follows. */
  readonly url: string
  /** Stops listening on this address. The gateway goes on. */
  close(): Promise<void>
}

export interface GatewayListenersOptions extends NodeListenerOptions {
  readonly auth: Authenticator | undefined
  /** Defaults for `listen()`. */
  readonly http: Pick<HttpSettings, 'host' | 'port' | 'path' | 'insecure'>
  /** As `serve`, for addresses with `probesOnly`. */
  readonly serveProbes: NodeListenerOptions['serve']
  /** Connections that accept no bytes for this time are ended. */
  readonly writeTimeoutMs: number
}

/** Longer than a mobile network needs to come back, and short enough that stalled answers do not fill the memory. */
export const WRITE_TIMEOUT_MS = 30_000

/** Servers can listen on these, but clients cannot connect to them. */
const ANY_ADDRESS = ['0.0.0.0', '::', '[::]', '']

/** Servers of one gateway. Each can be closed alone, or all of them together. */
export class GatewayListeners {
  readonly #options: GatewayListenersOptions
  /** With the origin that clients can use. `undefined`: clients cannot connect to that host. */
  readonly #servers = new Map<HttpServer, string | undefined>()
  readonly #probed = new Set<HttpServer>()
  #isStopped = false

  constructor(options: GatewayListenersOptions) {
    this.#options = options
  }

  /** An origin at which clients reach this process, such as `http://127.0.0.1:8000`, if it listens on one. */
  get origin(): string | undefined {
    return [...this.#servers.values()].find((origin) => origin !== undefined)
  }

  /** @throws GatewayError `CONFIG`, `CLOSED` after `stop()`, `LISTEN` with the cause */
  async listen(place: ListenOptions = {}): Promise<GatewayListener> {
    const { auth, http, onError, serveProbes, writeTimeoutMs } = this.#options
    const { host = http.host, port = http.port, insecure = http.insecure } = place
    const { probesOnly = false } = place
    if (!probesOnly) checkAuthFits(auth, { host, insecure })
    if (this.#isStopped) throw closed()
    const listener = nodeListener(
      probesOnly ? { ...this.#options, serve: serveProbes } : this.#options,
    )
    const server = await listenOn({ host, port, writeTimeoutMs }, listener, onError)
    // `stop()` may have been called meanwhile, without this server.
    if (this.#isStopped) {
      await server.close()
      throw closed()
    }
    const close = async (): Promise<void> => {
      this.#servers.delete(server)
      this.#probed.delete(server)
      await server.close()
    }
    const isBareIpv6 = host.includes(':') && !host.startsWith('[')
    const origin = `http://${isBareIpv6 ? `[${host}]` : host}:${server.port}`
    if (probesOnly) this.#probed.add(server)
    else this.#servers.set(server, ANY_ADDRESS.includes(host) ? undefined : origin)
    const url = probesOnly ? origin : `${origin}${http.path}`
    return { host, port: server.port, url, close, [Symbol.asyncDispose]: close }
  }

  /** Accepts no more connections of clients. Connections in use may go on, and probes are answered. */
  stop(): void {
    this.#isStopped = true
    for (const server of this.#servers.keys()) server.stop()
  }

  /** Ends all connections. */
  async close(): Promise<void> {
    this.stop()
    const all = [...this.#servers.keys(), ...this.#probed]
    await Promise.all(all.map((server) => server.close()))
  }
}

/**
 * Limits for slow and large requests. All are set, because the defaults of Node differ between versions. With the limit
 * for the body, a POST takes at most 30 s.
 */
const SERVER_LIMITS: ServerOptions = {
  /** Time until the head of a request is complete. Node checks it every `connectionsCheckingInterval`. */
  headersTimeout: 8_000,
  /** Time until the body is complete. Only an upload may need all of it. */
  requestTimeout: 300_000,
  /** Time between two requests. Longer than the 60 s of common load balancers, which must close first. */
  keepAliveTimeout: 65_000,
  connectionsCheckingInterval: 2_000,
  /** bytes */
  maxHeaderSize: 16_384,
  /** As in `Headers`: of two credentials, neither is silently dropped. */
  joinDuplicateHeaders: true,
}

/** Number of header lines of a request. */
const MAX_HEADERS = 200

export interface ServerPlace {
  readonly host: string
  /** 0: any free port */
  readonly port: number
  /** Connections that accept no bytes for this time are ended. Milliseconds. */
  readonly writeTimeoutMs: number
}

/** A server of `node:http` that listens. */
export interface HttpServer {
  readonly port: number
  /** Accepts no more connections. Connections in use may go on. */
  stop(): void
  /** Ends all connections. */
  close(): Promise<void>
}

/** @throws GatewayError `LISTEN` with the cause: the port is in use, or the address is not one of this machine */
export async function listenOn(
  { host, port, writeTimeoutMs }: ServerPlace,
  listener: RequestListener,
  onError: (error: Error) => void,
): Promise<HttpServer> {
  // An import of `node:http` also loads the `fetch` of Node, which takes several times as long.
  const { createServer } = process.getBuiltinModule('node:http')
  const server = createServer(SERVER_LIMITS, listener)
  server.maxHeadersCount = MAX_HEADERS
  endStalled(server, writeTimeoutMs)
  await new Promise<void>((resolve, reject) => {
    const fail = (cause: unknown): void => {
      const why = cause instanceof Error ? cause.message : String(cause)
      const message = `Cannot listen on ${host} port ${port}: ${why}`
      reject(new GatewayError('LISTEN', message, { cause }))
    }
    server.once('error', fail)
    try {
      server.listen(port, host, resolve)
    } catch (cause) {
      fail(cause) // the port is out of range
    }
  })
  server.removeAllListeners('error').on('error', onError)
  const bound = server.address()
  return {
    port: typeof bound === 'object' && bound !== null ? bound.port : port,
    stop: () => {
      server.close()
      server.closeIdleConnections()
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

/** Number of checks within the write time-out. */
const CHECKS = 30

/** Ends connections whose clients accept no bytes. One timer serves all connections: a reply needs none. */
function endStalled(server: Server, timeoutMs: number): void {
  const sockets = new Set<Socket>()
  /** Connections on which bytes waited at the last check: the number of bytes taken, and since when. */
  const waiting = new WeakMap<Socket, { readonly taken: number; readonly at: number }>()
  const check = (): void => {
    const now = performance.now()
    for (const socket of sockets) {
      const { writableLength } = socket
      if (writableLength === 0) {
        waiting.delete(socket)
        continue
      }
      const taken = socket.bytesWritten - writableLength
      const before = waiting.get(socket)
      if (before?.taken !== taken) waiting.set(socket, { taken, at: now })
      // Without a reset the operating system would keep the bytes for minutes.
      else if (now - before.at >= timeoutMs) socket.resetAndDestroy()
    }
  }
  const timer = setInterval(check, Math.max(1, timeoutMs / CHECKS)).unref()
  server.on('close', () => clearInterval(timer))
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
}

function closed(): GatewayError {
  return new GatewayError('CLOSED', 'The gateway was closed')
}
