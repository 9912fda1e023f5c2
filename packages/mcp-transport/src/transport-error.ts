import { CodedError } from '@x/internal'
import type { Answer, InputAnswers, JsonRpcError, JsonRpcResponse, RequestId } from './json-rpc.ts'

/** Reason of a failure. Stable: callers switch on it. */
export type TransportErrorCode =
  | 'CLOSED' // this side closed the transport or ended the session
  | 'SESSION_LOST' // the server refused the session
  | 'UNREACHABLE' // no connection, or it broke before the request was completely sent
  | 'OUTCOME_UNKNOWN' // sent but not answered: may have been executed
  | 'UNAUTHORIZED' // 401 or 403, or the provider says that there is no token
  | 'REJECTED' // an HTTP error status
  | 'UNEXPECTED_RESPONSE' // a response that is not MCP
  | 'LIMIT' // a size limit was exceeded
  | 'TIMEOUT' // a deadline of the transport passed
  | 'CONFIG' // headers or the message are invalid: nothing was sent
  | 'RECORD_UNUSABLE' // a stored session record was ignored
  | 'TOOL_LEFT_OUT' // a list has a tool that cannot be used, and was passed on without it

/**
 * Execution state of a request on the server.
 *
 * - `not-executed`: not executed; it is safe to send the request again
 * - `unknown`: it may have been executed, completely or in part
 */
export type RequestOutcome = 'not-executed' | 'unknown'

const OUTCOMES: Readonly<Record<Exclude<TransportErrorCode, 'SESSION_LOST'>, RequestOutcome>> = {
  CLOSED: 'unknown',
  UNREACHABLE: 'not-executed',
  OUTCOME_UNKNOWN: 'unknown',
  UNAUTHORIZED: 'not-executed',
  REJECTED: 'unknown',
  UNEXPECTED_RESPONSE: 'unknown',
  LIMIT: 'unknown',
  TIMEOUT: 'unknown',
  CONFIG: 'not-executed',
  RECORD_UNUSABLE: 'not-executed',
  TOOL_LEFT_OUT: 'not-executed',
}

/** The JSON-RPC error that came with an HTTP error status, as the server wrote it. */
export type ServerError = JsonRpcError['error']

type Details = Pick<
  TransportError,
  | 'status'
  | 'certain'
  | 'epoch'
  | 'url'
  | 'bodyText'
  | 'serverError'
  | 'retryAfterMs'
  | 'resume'
  | 'isNamed'
>

/** `outcome` is derived from the code by default; for `SESSION_LOST`, from `certain`. */
export interface TransportErrorOptions
  extends ErrorOptions, Partial<Details & Record<'outcome', RequestOutcome | undefined>> {}

const BRAND = Symbol.for('mcp-transport.TransportError')

/** An HTTP exchange failed. A JSON-RPC error with which a server answers a request is not a TransportError. */
export class TransportError extends CodedError<TransportErrorCode> {
  override readonly name = 'TransportError'
  /** HTTP status, when there was a response. */
  declare readonly status: number | undefined
  /** With `SESSION_LOST`: true if the server refused the session before it ran anything. */
  declare readonly certain: boolean | undefined
  /** With `SESSION_LOST`: generation of the session that the request belonged to (`SessionRecord.epoch`). */
  declare readonly epoch: number | undefined
  /** Endpoint without query and credentials. */
  declare readonly url: string | undefined
  /** The start of the response body, at most `limits.errorTextBytes` long. */
  declare readonly bodyText: string | undefined
  /** The JSON-RPC error of the server. */
  declare readonly serverError: ServerError | undefined
  /** Delay from `Retry-After`, in milliseconds. */
  declare readonly retryAfterMs: number | undefined

  readonly #options: TransportErrorOptions

  constructor(code: TransportErrorCode, message: string, options: TransportErrorOptions = {}) {
    const { cause, resume: _resume, outcome: _outcome, isNamed: _isNamed, ...details } = options
    super(code, message, cause === undefined ? undefined : { cause })
    this.#options = options
    // Only known values are set, so that a logged error shows no undefined fields.
    const known = Object.entries(details).filter(([, value]) => value !== undefined)
    Object.assign(this, Object.fromEntries(known))
    Object.defineProperty(this, BRAND, { value: true })
  }

  /** Execution state of the failed request. */
  get outcome(): RequestOutcome {
    const { outcome } = this.#options
    if (outcome !== undefined) return outcome
    if (this.code !== 'SESSION_LOST') return OUTCOMES[this.code]
    return this.certain === true ? 'not-executed' : 'unknown'
  }

  /**
   * Set if a later round of a call failed: continues the call with that round, because starting again would
   * execute the first rounds twice. Holds answers of the user, so it is not shown when the error is logged.
   */
  get resume(): InputAnswers | undefined {
    return this.#options.resume
  }

  /**
   * With `SESSION_LOST`: the refusal names the session, and is not the answer to the request. It stays certain in a
   * session that was just opened.
   *
   * @internal
   */
  get isNamed(): boolean {
    return this.#options.isNamed === true
  }

  /** Returns a copy with changed values. Its `cause` is this error. */
  with(
    changes: TransportErrorOptions & Partial<Pick<TransportError, 'code' | 'message'>>,
  ): TransportError {
    const { code = this.code, message = this.message, ...options } = changes
    return new TransportError(code, message, { ...this.#options, cause: this, ...options })
  }

  /** Like `instanceof`, also for errors of another copy of this package. */
  static is(value: unknown): value is TransportError {
    return typeof value === 'object' && value !== null && BRAND in value
  }
}

/**
 * Returns a thrown value as a `TransportError`. Other errors are bugs in this package, and reported as such.
 */
export function toTransportError(thrown: unknown): TransportError {
  if (TransportError.is(thrown)) return thrown
  const message = 'Internal error of the transport: see the cause, and report it as a bug'
  return new TransportError('UNEXPECTED_RESPONSE', message, { cause: thrown })
}

/** Reason for a missing session: the server answered `initialize` with an error, or gave no answer. */
export type OpeningError = ServerError | TransportError

export function refusedSessionError(error: OpeningError, url: string): TransportError {
  if (TransportError.is(error)) return error
  const message = `${url} refused a new session: ${error.message}`
  return new TransportError('REJECTED', message, { url, serverError: error })
}

/**
 * Converts the outcome of a request to its response. A failure becomes an error whose `data` is the `TransportError`, so
 * that the client settles the request and removes its handler; a rejected `send()` would leak it.
 */
export function toResponse(id: RequestId, outcome: Answer | TransportError): JsonRpcResponse {
  if ('result' in outcome) return { jsonrpc: '2.0', id, result: outcome.result }
  if ('error' in outcome) return { jsonrpc: '2.0', id, error: outcome.error }
  const code = outcome.serverError?.code ?? -32000
  return { jsonrpc: '2.0', id, error: { code, message: outcome.message, data: outcome } }
}
