import type { IncomingMessage, ServerResponse } from 'node:http'
import { listenOnLoopback } from './loopback-server.ts'

/** Options of {@link startTestServer}. */
export interface TestServerOptions {
  /** Path of the `url`. @default '/mcp' */
  readonly path?: string | undefined
}

/** A bare HTTP server of one handler. */
export interface TestServer extends AsyncDisposable {
  readonly url: string
  /** TCP connections accepted so far. */
  readonly connections: number
  /** A crash: every socket is reset, the port stays. Ends when it listens again. */
  restart(): Promise<void>
}

/** Starts `handler` on a free port of 127.0.0.1, with nothing in between. It answers every path. */
export async function startTestServer(
  handler: (request: IncomingMessage, response: ServerResponse) => void,
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
