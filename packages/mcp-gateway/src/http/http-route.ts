import type { HttpExchange } from '../internal/exchange.ts'

/** Something beside the MCP endpoint: documents of authentication, artifacts, health. */
export interface HttpRoute {
  /** By the path of the URL, as it reaches the gateway. */
  matches(path: string): boolean
  /** Wants request bodies as a stream, and bounds them itself. @default false */
  readonly isStreamed?: boolean | undefined
  /** Answers also those who do not know the gateway by a name of its own: probes. @default false */
  readonly isOpen?: boolean | undefined
  /** `undefined`: nothing is there. */
  handle(exchange: HttpExchange): Promise<Response | undefined>
}
