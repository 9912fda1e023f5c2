/**
 * Why a session was not read or not stored. Stable: callers switch on it. "What can go wrong on the client
 * side" in the README says what each of them means, and what to do.
 */
export type DebugStateErrorCode =
  | 'NOT_CONFIGURED' // no service address or agent id: sessions stay in memory
  | 'TOKEN' // the token function failed
  | 'TIMEOUT' // no complete answer within the limit
  | 'UNREACHABLE' // no connection, or it broke
  | 'UNAUTHORIZED' // 401 or 403
  | 'REJECTED' // any other HTTP error status
  | 'TOO_LARGE' // the value, or the answer, is over the limit
  | 'UNEXPECTED_RESPONSE' // what is stored is not a session id

export interface DebugStateErrorOptions extends ErrorOptions {
  /** Of the HTTP answer. @default undefined: there was none */
  readonly status?: number | undefined
}

/**
 * The debug-state service could not be used. Never thrown out of a `SessionInfo`: it is handed to
 * `onWarning`, once per code, and the agent goes on as if nothing were stored.
 */
export class DebugStateError extends Error {
  override readonly name = 'DebugStateError'
  readonly code: DebugStateErrorCode
  /** HTTP status, when there was an answer. */
  readonly status: number | undefined

  constructor(code: DebugStateErrorCode, message: string, options: DebugStateErrorOptions = {}) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined)
    this.code = code
    this.status = options.status
  }
}
