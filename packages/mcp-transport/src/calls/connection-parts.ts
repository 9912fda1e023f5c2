import type { Call, CallOptions, MessageHandlers } from './call.ts'
import type { OpenCalls } from './open-calls.ts'
import type { HttpClient } from '../http/http-client.ts'
import type { InputRequest } from '../json-rpc.ts'
import type { SessionKeeper } from '../session-keeper.ts'
import type { TransportError } from '../transport-error.ts'
import type { Reconnect, SessionReplaced, Timeouts } from '../transport-options.ts'

/** Objects that all parts of one connection share. */
export interface ConnectionParts extends MessageHandlers {
  readonly http: HttpClient
  readonly keeper: SessionKeeper
  readonly calls: OpenCalls
  readonly timeouts: Timeouts
  readonly reconnect: Reconnect
  /** Undefined: only for a server that may send messages without a request. */
  readonly listen: boolean | undefined
  /** Called after a lost session was replaced. Set if the connection sends lost requests again. */
  readonly onReplaced: ((event: SessionReplaced) => void) | undefined
  /** Reports a failure that belongs to no message. */
  readonly report: (error: TransportError) => void
  /** Runs a callback of the user. Its error is reported: it must not break the stream that brought the message. */
  readonly guard: (callback: () => void) => void
  /** Number of the next request. */
  readonly nextId: () => number
  readonly createCall: (
    request: InputRequest,
    options: CallOptions,
    onSettled: Call['onSettled'],
  ) => Call
}
