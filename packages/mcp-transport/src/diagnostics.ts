import { channel } from 'node:diagnostics_channel'
import type { Channel } from 'node:diagnostics_channel'
import type { Era } from './session-record.ts'
import type { TransportErrorCode } from './transport-error.ts'

/** A session began or ended. Ids are shortened. */
export interface SessionEvent {
  readonly type: 'opened' | 'resumed' | 'lost' | 'ended'
  /** Endpoint without query. */
  readonly url: string
  readonly era: Era
  /** `SessionRecord.epoch` */
  readonly epoch: number
  readonly sessionId?: string | undefined
}

/** A lost session was replaced. The state that the server kept in it is gone. */
export interface SessionReplaced {
  readonly oldEpoch: number
  readonly newEpoch: number
  /** Shortened. */
  readonly oldSessionId: string | undefined
  /** Shortened. */
  readonly newSessionId: string | undefined
}

/** Publishes an `ExchangeEvent` at the end of each HTTP exchange, for every transport in the process. */
export const exchangeChannel: Channel = channel('x:mcp:exchange')

/** Publishes a `SessionEvent` when a session begins or ends. */
export const sessionChannel: Channel = channel('x:mcp:session')

/** One HTTP exchange that has ended. Contains no header values, no query and no complete session id. */
export interface ExchangeEvent {
  readonly httpMethod: 'POST' | 'GET' | 'DELETE'
  /** Endpoint without query. */
  readonly url: string
  /** JSON-RPC method of the request body, if there is one. */
  readonly rpcMethod: string | undefined
  readonly era: Era
  /** Shortened: first 4 characters and length. */
  readonly sessionId: string | undefined
  /** HTTP status, if there was a response. */
  readonly status: number | undefined
  /** Length of the request body; 0 without a body. */
  readonly requestBytes: number
  /** Number of bytes read from the response body. */
  readonly responseBytes: number
  /** Milliseconds from the dispatch to the last byte. */
  readonly ms: number
  /** 0 for the first attempt. Counts reopened streams and repeated requests. */
  readonly attempt: number
  /** Code of the failure, if there was no complete HTTP response. */
  readonly error: TransportErrorCode | undefined
}
