/**
 * Why a server does not listen. Stable: callers switch on it. "What can go wrong in the service" in the
 * README says what to do.
 */
export type DebugStateServerErrorCode =
  | 'NOT_LOOPBACK' // without tokens only this machine may reach it
  | 'ADDRESS_IN_USE' // another process has the port
  | 'LISTEN_FAILED' // anything else the operating system refused
  | 'LISTENING' // it listens already
  | 'CLOSED' // this side closed it

/** The server could not listen. The message says what to do. */
export class DebugStateServerError extends Error {
  override readonly name = 'DebugStateServerError'
  readonly code: DebugStateServerErrorCode

  constructor(code: DebugStateServerErrorCode, message: string, options: ErrorOptions = {}) {
    super(message, options)
    this.code = code
  }
}
