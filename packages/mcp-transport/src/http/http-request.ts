import type { Era } from '../session-record.ts'
import type { Exchange } from './exchange.ts'

/** What an `HttpClient` is asked to send. */
export interface HttpRequest {
  readonly method: 'POST' | 'GET' | 'DELETE'
  readonly rpcMethod?: string | undefined
  /**
   * The request belongs to a call, and is sent in the async context of its caller. All others are sent in that of
   * the owner of the session. @default false
   */
  readonly isOfCaller?: boolean | undefined
  readonly era: Era
  readonly sessionId?: string | undefined
  /** The transport's own headers, as a flat list. */
  readonly headers: readonly string[]
  readonly body?: string | undefined
  /** Limit until the response head has come, in milliseconds; 0 for none. */
  readonly headersMs: number
  /** Limit between two pieces of the body, in milliseconds; 0 for none. */
  readonly idleMs: number
  /** 0 for the first; streams that are opened again count up. @default 0 */
  readonly attempt?: number | undefined
  /** Stays open for long: takes no connection away from requests. */
  readonly isLongLived?: boolean | undefined
  /**
   * Called when all is ready, just before anything is sent. False withdraws the request: then `send`
   * rejects with `CLOSED`, and the handlers hear nothing. Called once more, with the same exchange, before
   * a request that was refused is sent again; false then ends it with `CLOSED`.
   */
  readonly onStart?: ((exchange: Exchange) => boolean) | undefined
  /** True while other credentials are sought, maybe from a user: deadlines should stand still. */
  readonly onPause?: ((isPaused: boolean) => void) | undefined
}
