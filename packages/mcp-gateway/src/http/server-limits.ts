import type { ServerOptions } from 'node:http'

/**
 * What one slow or large request may take of a `node:http` server; for `createServer()`. Set by name, because the
 * defaults of Node have changed between versions. With `BODY_TIMEOUT_MS`, head and body of a POST take 30 s at most.
 */
export const SERVER_LIMITS: Readonly<ServerOptions> = {
  /** Until the head of a request is there, in milliseconds. Node looks once in `connectionsCheckingInterval`. */
  headersTimeout: 8_000,
  /** Until the body is there too. Only an upload may need all of it. */
  requestTimeout: 300_000,
  /** Between two requests on one connection: longer than the 60 s of common load balancers, which must close first. */
  keepAliveTimeout: 65_000,
  /** How often the first two are looked at. */
  connectionsCheckingInterval: 2_000,
  /** bytes */
  maxHeaderSize: 16_384,
}

/** How long the body of a POST may take after its head, in milliseconds. */
export const BODY_TIMEOUT_MS = 20_000

/** How many header lines a request may have; for `server.maxHeadersCount`. */
export const MAX_HEADERS_COUNT = 200
