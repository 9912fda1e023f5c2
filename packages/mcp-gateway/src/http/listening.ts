import { createServer, type RequestListener } from 'node:http'

import { GatewayError } from '../gateway-error.ts'
import { MAX_HEADERS_COUNT, SERVER_LIMITS } from './server-limits.ts'

export interface Address {
  readonly host: string
  /** 0: any that is free */
  readonly port: number
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
  { host, port }: Address,
  listener: RequestListener,
  onError: (error: Error) => void,
): Promise<Listening> {
  const server = createServer(SERVER_LIMITS, listener)
  server.maxHeadersCount = MAX_HEADERS_COUNT
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
