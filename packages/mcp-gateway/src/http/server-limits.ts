import type { ServerOptions } from 'node:http'

/**
 * What one slow or large request may take of a `node:http` server; for `createServer()`. Set by name, because the
 * defaults of Node have changed between versions. An answer may take as long as it likes: streams do.
 */
export const SERVER_LIMITS: Readonly<ServerOptions> = {
  /** Until the head of a request is there, in milliseconds. */
  headersTimeout: 15_000,
  /** Until its body is there too. An upload needs all of it. */
  requestTimeout: 300_000,
  /** Between two requests on one connection: longer than the 60 s of common load balancers, which must close first. */
  keepAliveTimeout: 65_000,
  /** How often the two above are looked at. */
  connectionsCheckingInterval: 5_000,
  /** bytes */
  maxHeaderSize: 16_384,
}

/** How many header lines a request may have; for `server.maxHeadersCount`. */
export const MAX_HEADERS_COUNT = 200
