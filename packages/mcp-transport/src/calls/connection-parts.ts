import type { MessageHandlers } from './call.ts'
import type { OpenCalls } from './open-calls.ts'
import type { HttpClient } from '../http/http-client.ts'
import type { SessionKeeper } from '../session-keeper.ts'
import type { TransportError } from '../transport-error.ts'
import type { Reconnect, Timeouts } from '../transport-options.ts'

/** Objects that all parts of one connection share. */
export interface ConnectionParts extends MessageHandlers {
  readonly http: HttpClient
  readonly keeper: SessionKeeper
  readonly calls: OpenCalls
  readonly timeouts: Timeouts
  readonly reconnect: Reconnect
  /** Undefined: only for a server that may send messages without a request. */
  readonly listen: boolean | undefined
  /** Reports a failure that belongs to no message. */
  readonly report: (error: TransportError) => void
  /** Runs a callback of the user. Its error is reported: it must not break the stream that brought the message. */
  readonly guard: (callback: () => void) => void
}
