import { channel } from 'node:diagnostics_channel'
import type { Channel } from 'node:diagnostics_channel'
import type { Era } from './session-record.ts'
import type { TransportErrorCode } from './transport-error.ts'

/** What happened to a session. Ids are shortened. */
export interface SessionEvent {
  readonly type: 'opened' | 'resumed' | 'lost' | 'ended'
  /** Endpoint without query. */
  readonly url: string
  readonly era: Era
  /** `SessionRecord.epoch` */
  readonly epoch: number
  readonly sessionId?: string | undefined
}

/** A lost session has been replaced. What the server kept in it is gone. */
export interface SessionReplaced {
  readonly oldEpoch: number
  readonly newEpoch: number
  /** Shortened. */
  readonly oldSessionId: string | undefined
  /** Shortened. */
  readonly newSessionId: string | undefined
}

/** One `ExchangeEvent` for each HTTP exchange that has ended, of every transport in the process. */
export const exchangeChannel: Channel = channel('x:mcp:exchange')

/** One `SessionEvent` whenever a session begins or ends. */
export const sessionChannel: Channel = channel('x:mcp:session')

/** One HTTP exchange, told when it has ended. Holds no header value, no query and no whole session id. */
export interface ExchangeEvent {
  readonly httpMethod: 'POST' | 'GET' | 'DELETE'
  /** Endpoint without query. */
  readonly url: string
  /** JSON-RPC method of the message that was sent, if there was one. */
  readonly rpcMethod?: string | undefined
  readonly era: Era
  /** Shortened: first 4 characters and length. */
  readonly sessionId?: string | undefined
  /** HTTP status, if there was a response. */
  readonly status?: number | undefined
  /** Length of the body that was sent; 0 without one. */
  readonly requestBytes: number
  /** What was read of the response's body. */
  readonly responseBytes: number
  /** From the call of undici to the last byte, in milliseconds. */
  readonly ms: number
  /** 0 for the first attempt; streams that are opened again count up. */
  readonly attempt: number
  /** Why it failed below HTTP, if it did. */
  readonly error?: TransportErrorCode | undefined
}
