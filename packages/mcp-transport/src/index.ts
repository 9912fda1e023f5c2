// Everything exported here is public API. The wire (exchange, streams, classifier) is deliberately private.
export { SessionInfo } from './session-info.ts'
export { sessionRecordFrom } from './session-record.ts'
export type { Era, InitializeResult, SessionRecord } from './session-record.ts'
export { isSessionId, shortSessionId } from './session-id.ts'
export { TransportError } from './transport-error.ts'
export type { ServerError, TransportErrorCode, TransportErrorOptions } from './transport-error.ts'
