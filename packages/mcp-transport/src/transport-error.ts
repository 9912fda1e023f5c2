import type { InputAnswers, JsonRpcError, RequestId } from './json-rpc.ts'

/** Why an exchange failed. Stable: callers switch on it. */
export type TransportErrorCode =
  | 'CLOSED' // this side closed the transport or ended the session
  | 'SESSION_LOST' // the server refused the session
  | 'UNREACHABLE' // no connection, or it broke before the whole request was sent: nothing was delivered
  | 'OUTCOME_UNKNOWN' // sent, never answered: it may have been executed
  | 'UNAUTHORIZED' // 401 or 403
  | 'REJECTED' // an HTTP error status
  | 'UNEXPECTED_RESPONSE' // a response that is not MCP
  | 'LIMIT' // a size limit was hit
  | 'TIMEOUT' // a deadline of the transport passed
  | 'CONFIG' // headers could not be made or used: nothing was sent
  | 'RECORD_UNUSABLE' // a stored session record was left aside

/**
 * What became of a request on the server.
 *
 * - `not-executed`: the server has not executed it; it is safe to send it again
 * - `unknown`: the server may have executed it, wholly or in part
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
}

/**
 * Outcome of a request that was sent several times, or of a call of several requests: that of its worst
 * part. A later attempt never improves an earlier one.
 */
export function worstOutcome(...outcomes: readonly (RequestOutcome | undefined)[]): RequestOutcome {
  return outcomes.every((outcome) => outcome === 'not-executed') ? 'not-executed' : 'unknown'
}

/** The JSON-RPC error that came with an HTTP error status, as the server wrote it. */
export interface ServerError {
  readonly code: number
  readonly message: string
  readonly data?: unknown
}

export interface TransportErrorOptions extends ErrorOptions {
  readonly status?: number | undefined
  readonly certain?: boolean | undefined
  readonly epoch?: number | undefined
  readonly url?: string | undefined
  readonly bodyText?: string | undefined
  readonly serverError?: ServerError | undefined
  readonly retryAfterMs?: number | undefined
  readonly resume?: InputAnswers | undefined
  /** @default as the code says; with `SESSION_LOST`, as `certain` says */
  readonly outcome?: RequestOutcome | undefined
}

const BRAND = Symbol.for('mcp-transport.TransportError')

/** The HTTP leg failed. What the server *answered* to a request it ran is never one of these. */
export class TransportError extends Error {
  override readonly name = 'TransportError'
  readonly code: TransportErrorCode
  /** HTTP status, when there was a response. */
  declare readonly status: number | undefined
  /** With `SESSION_LOST`: true if the server refused the session before it ran anything. */
  declare readonly certain: boolean | undefined
  /** With `SESSION_LOST`: which session the request belonged to (`SessionRecord.epoch`). */
  declare readonly epoch: number | undefined
  /** Where the request went, without query and credentials. */
  declare readonly url: string | undefined
  /** The start of the response body, at most `limits.errorTextBytes` long. */
  declare readonly bodyText: string | undefined
  /** What the server itself gave as the reason. */
  declare readonly serverError: ServerError | undefined
  /** The delay that the server asked for with `Retry-After`, in milliseconds. */
  declare readonly retryAfterMs: number | undefined

  readonly #resume: InputAnswers | undefined
  readonly #outcome: RequestOutcome | undefined

  constructor(code: TransportErrorCode, message: string, options: TransportErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.code = code
    // Only what is known is there, so that a logged error shows no row of `undefined`s.
    const { status, certain, epoch, url, bodyText, serverError, retryAfterMs } = options
    if (status !== undefined) this.status = status
    if (certain !== undefined) this.certain = certain
    if (epoch !== undefined) this.epoch = epoch
    if (url !== undefined) this.url = url
    if (bodyText !== undefined) this.bodyText = bodyText
    if (serverError !== undefined) this.serverError = serverError
    if (retryAfterMs !== undefined) this.retryAfterMs = retryAfterMs
    this.#resume = options.resume
    this.#outcome = options.outcome
    Object.defineProperty(this, BRAND, { value: true })
  }

  /** What became of the request that failed with this. */
  get outcome(): RequestOutcome {
    if (this.#outcome !== undefined) return this.#outcome
    if (this.code !== 'SESSION_LOST') return OUTCOMES[this.code]
    return this.certain === true ? 'not-executed' : 'unknown'
  }

  /**
   * Given where a later round of a call has failed: continues the call with that round, where starting it
   * anew would execute the first rounds twice. `cause` is the failure of the round alone. Holds answers of
   * the user, so it is not shown where the error is logged.
   */
  get resume(): InputAnswers | undefined {
    return this.#resume
  }

  /** A copy with other values. Its `cause` is this error. */
  with(
    changes: TransportErrorOptions & {
      readonly code?: TransportErrorCode
      readonly message?: string
    },
  ): TransportError {
    const { code = this.code, message = this.message, ...options } = changes
    const { status, certain, epoch, url, bodyText, serverError, retryAfterMs } = this
    const own = { status, certain, epoch, url, bodyText, serverError, retryAfterMs }
    const outcome = this.#outcome
    const resume = this.#resume
    return new TransportError(code, message, { ...own, resume, outcome, cause: this, ...options })
  }

  /** `instanceof` that also knows errors made by another copy of this package. */
  static is(value: unknown): value is TransportError {
    return typeof value === 'object' && value !== null && BRAND in value
  }
}

/** What was thrown, as a `TransportError`. What is none yet is a mistake in here, and is told as one. */
export function toTransportError(thrown: unknown): TransportError {
  if (TransportError.is(thrown)) return thrown
  const message = 'The transport failed on its own account'
  return new TransportError('UNEXPECTED_RESPONSE', message, { cause: thrown })
}

/**
 * `CLOSED`: this side has closed the transport, ended the session or given up the request.
 *
 * @param url Without query
 */
export function closedError(
  why: string,
  url: string,
  outcome: RequestOutcome = 'unknown',
): TransportError {
  return new TransportError('CLOSED', why, { url, outcome })
}

/**
 * How a failed request reaches the client: as an error answer, so that the client settles the request
 * and forgets it (a rejected `send()` would leak its handler). `data` is the `TransportError` itself.
 */
export function errorAnswer(id: RequestId, error: TransportError): JsonRpcError {
  const code = error.serverError?.code ?? -32000
  return { jsonrpc: '2.0', id, error: { code, message: error.message, data: error } }
}
