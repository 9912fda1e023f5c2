import { createServer, type RequestListener, type Server } from 'node:http'
import type { Socket } from 'node:net'

import { GatewayError } from '../errors.ts'
import { MAX_HEADERS_COUNT, SERVER_LIMITS } from './server-limits.ts'

interface Address {
  readonly host: string
  /** 0: any that is free */
  readonly port: number
}

/** Where to listen, and how. */
export interface ListenPlace extends Address {
  /** A connection that takes none of the bytes that wait for it is ended after this time. @default 30_000 */
  readonly writeTimeoutMs?: number | undefined
}

/** A listening server of `node:http`. */
export interface Listening extends Address {
  /** Takes no more connections; those that are in use may go on. */
  stop(): void
  /** Ends all connections. */
  close(): Promise<void>
}

/** @throws GatewayError `LISTEN` with the cause: the port is taken, the address is not ours */
export async function listenOn(
  { host, port, writeTimeoutMs = 30_000 }: ListenPlace,
  listener: RequestListener,
  onError: (error: Error) => void,
): Promise<Listening> {
  const server = createServer(SERVER_LIMITS, listener)
  server.maxHeadersCount = MAX_HEADERS_COUNT
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
      fail(cause) // a port that there cannot be
    }
  })
  server.removeAllListeners('error').on('error', onError)
  const bound = server.address()
  return {
    host,
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

/** How often in the write time-out connections are looked at. */
const LOOKS = 30

/** Ends connections whose peers take nothing of what waits for them. One timer for all: an answer costs none. */
function endStalled(server: Server, timeoutMs: number): void {
  const sockets = new Set<Socket>()
  /** Those for which bytes waited at the last look: how many they had taken by when. */
  const waiting = new WeakMap<Socket, { readonly taken: number; readonly at: number }>()
  const look = (): void => {
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
      // Without a reset the system would keep the bytes for minutes.
      else if (now - before.at >= timeoutMs) socket.resetAndDestroy()
    }
  }
  const looking = setInterval(look, Math.max(1, timeoutMs / LOOKS)).unref()
  server.on('close', () => clearInterval(looking))
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
}
