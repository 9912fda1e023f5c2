import type { RpcId } from './rpc-message.ts'

/** How an exchange ended. */
export type ExchangeEnd =
  | 'complete' // the whole answer went to the client
  | 'client-gone' // the client closed the request or its connection
  | 'server-gone' // the server's connection broke; the client's was cut in turn
  | 'cut' // a rule cut the client's connection

/** One HTTP exchange. It fills up while it happens. Ids are in full: this is a test tool. */
export interface Exchange {
  /** 1 for the first. */
  readonly n: number
  /** Number of the client's TCP connection; the first one is 1. */
  readonly connection: number
  readonly httpMethod: string
  /** Without the query. */
  readonly path: string
  readonly rpcMethod?: string | undefined
  readonly rpcId?: RpcId | undefined
  /** Tool of a `tools/call`. */
  readonly toolName?: string | undefined
  /** As the client sent it. */
  readonly sessionId?: string | undefined
  /** As the server assigned it, on the answer to `initialize`. */
  readonly assignedSessionId?: string | undefined
  readonly protocolVersion?: string | undefined
  readonly lastEventId?: string | undefined
  /** As it went to the client; absent while there is no answer. */
  readonly status?: number | undefined
  /** A rule acted on it. */
  readonly injected?: boolean | undefined
  /** Milliseconds since the epoch. */
  readonly startedAt: number
  /** Duration, once it has ended. */
  readonly ms?: number | undefined
  /** Absent while it goes on. */
  readonly end?: ExchangeEnd | undefined
}

/** What `count` looks at; what is left out matches all. */
export interface ExchangeFilter {
  readonly httpMethod?: string | undefined
  readonly rpcMethod?: string | undefined
  readonly toolName?: string | undefined
  readonly status?: number | undefined
}

/** How many of the exchanges pass the filter. */
export function countOf(exchanges: readonly Exchange[], filter: ExchangeFilter): number {
  const keys = ['httpMethod', 'rpcMethod', 'toolName', 'status'] as const
  return exchanges.filter((exchange) =>
    keys.every((key) => filter[key] === undefined || filter[key] === exchange[key]),
  ).length
}
