import { McpError } from '@modelcontextprotocol/sdk/types.js'
import { assertOptions, CodedError } from '@x/internal'
import type { Check } from '@x/internal'
import { TransportError } from '@x/mcp-transport'
import type { RequestOutcome, TransportErrorCode } from '@x/mcp-transport'
import { DeadlineError } from './deadline.ts'
import type { KeyedCall } from './idempotency.ts'
import type { TaskReference } from './input-required.ts'
import { FieldError } from './server-fields.ts'

/** Reason of a failure. Stable, for `switch`. */
export type McpClientErrorCode =
  | TransportErrorCode
  | 'CONFIG' // a config, a URL or a directory entry cannot be used; nothing was sent
  | 'NOT_FOUND' // the directory does not have the server
  | 'REENTRANT' // the client was called from inside its own handshake
  | 'NO_RUN' // a client with `scope: 'run'` was called outside a run, or after its end
  | 'INVALID_LIST' // a paginated list does not end
  | 'TASK_FAILED' // a call became a task, and the task ended with an error of the protocol
  | 'TASK_CANCELLED' // the task was cancelled
  | 'TASK_EXPIRED' // the server no longer keeps the task
  | 'TASK_UNKNOWN' // the server does not know the task, or has no tasks
  | 'TASK_INPUT' // the task waits for an answer that this client cannot give
  | 'TASK_REFERENCE' // the reference is invalid, or belongs to another server or principal
  | 'SKILL_UNUSABLE' // a skill breaks a rule, or a file does not fit the entry of its skill
  | 'INPUT_FAILED' // a handler of this client failed to answer a question of the server
  | 'INVALID_OUTPUT' // a tool has run, and its result does not match its output schema

/**
 * Outcome of a request on the server, over all attempts.
 *
 * - `not-executed`: it did not run. Sending it again is safe
 * - `unknown`: it may have run, in whole or in part. Check before you repeat it
 * - `executed`: it has run, but its result cannot be used (`INVALID_OUTPUT`, `UNEXPECTED_RESPONSE`)
 */
export type OperationOutcome = 'not-executed' | 'unknown' | 'executed'

export interface McpClientErrorOptions
  extends
    ErrorOptions,
    Partial<
      Pick<McpClientError, 'tool' | 'outcome' | 'retryAfterMs' | 'result' | 'stderr' | 'task'>
    > {
  readonly server: string
}

const BRAND = Symbol.for('mcp-client.McpClientError')

/**
 * An operation got no response. A response of the server, also an error, is never a `McpClientError`: it is
 * the SDK's `McpError`.
 *
 * Handle `outcome: 'unknown'`: the tool may or may not have run.
 */
export class McpClientError extends CodedError<McpClientErrorCode> {
  override readonly name = 'McpClientError'
  /** Slug, name or URL of the server, as configured; without query. */
  readonly server: string
  readonly tool: string | undefined
  /** Undefined only for errors that belong to no request. */
  readonly outcome: OperationOutcome | undefined
  /** Delay that an overloaded server requested, in milliseconds. */
  readonly retryAfterMs: number | undefined
  /** The result as the server sent it, if `outcome` is `executed`. */
  readonly result: unknown
  /** End of the standard error of a server on stdio, without its secrets. */
  readonly stderr: string | undefined
  /** The task that the call has become, for `resumeTask()`. */
  readonly task: TaskReference | undefined

  constructor(code: McpClientErrorCode, message: string, options: McpClientErrorOptions) {
    super(code, message, options)
    this.server = options.server
    this.tool = options.tool
    this.outcome = options.outcome
    this.retryAfterMs = options.retryAfterMs
    this.result = options.result
    this.stderr = options.stderr
    this.task = options.task
    Object.defineProperty(this, BRAND, { value: true })
  }

  /** Like `instanceof`, but also recognizes errors of another copy of this package. */
  static is(value: unknown): value is McpClientError {
    return typeof value === 'object' && value !== null && BRAND in value
  }
}

/** A result that does not fit the schema of its method. */
export class UnreadableResult extends Error {
  readonly result: unknown

  constructor(result: unknown, cause: unknown) {
    super('The result does not fit its schema', { cause })
    this.result = result
  }
}

/** A handler of the client could not answer a question of the server. */
export class InputFailure extends Error {
  constructor(handler: string, cause: unknown) {
    super(`The handler "${handler}" failed: ${getMessage(cause)}`, { cause })
  }
}

/** A child process failed. An error that the server *answered* is never a `StdioError`. */
export class StdioError extends TransportError {
  /** End of the standard error of the child, without secrets. */
  declare readonly stderr: string | undefined

  constructor(
    code: TransportErrorCode,
    message: string,
    options: ErrorOptions & Partial<Pick<StdioError, 'stderr'>> = {},
  ) {
    super(code, message, options)
    if (options.stderr !== undefined) this.stderr = options.stderr
  }
}

/**
 * Rejects options that are unknown or have a wrong value.
 *
 * @param owner the function or class that takes the options
 * @throws McpClientError `CONFIG`
 */
export function assertClientOptions(
  owner: string,
  given: unknown,
  {
    checks,
    server = '(unnamed)',
  }: { readonly checks: Readonly<Record<string, Check>>; readonly server?: string },
): void {
  const toError = ({ message }: { message: string }): McpClientError =>
    notExecuted('CONFIG', `${owner}: ${message}`, { server })
  assertOptions(toError, given, checks)
}

/** Creates the error of an operation that failed before anything was sent or started. */
export function notExecuted(
  code: McpClientErrorCode,
  message: string,
  options: ErrorOptions & { readonly server: string },
): McpClientError {
  return new McpClientError(code, message, { ...options, outcome: 'not-executed' })
}

/** Returns the error of the transport inside an error of the SDK, or undefined. */
export function getTransportError(error: unknown): TransportError | undefined {
  if (TransportError.is(error)) return error
  return error instanceof McpError && TransportError.is(error.data) ? error.data : undefined
}

/** Returns whether the server, or a gateway in front of it, was unreachable or closed the connection. */
export function isConnectionFailure(
  failure: { readonly code: McpClientErrorCode; readonly status?: number | undefined } | undefined,
): boolean {
  if (failure === undefined) return false
  const { code, status = 0 } = failure
  const isGateway = code === 'REJECTED' && isGatewayStatus(status)
  return isGateway || code === 'UNREACHABLE' || code === 'OUTCOME_UNKNOWN'
}

/** Returns whether a proxy answers with this status while its server is away. 520 to 530 are those of Cloudflare. */
export function isGatewayStatus(status: number): boolean {
  return (status >= 502 && status <= 504) || (status >= 520 && status <= 530)
}

/** Returns the failure of a request, or of the handshake if no session could be opened for the request. */
export function getFailure(error: unknown): TransportError | undefined {
  if (!McpClientError.is(error)) return getTransportError(error)
  const cause = getTransportError(error.cause)
  // If the session before was lost, its loss is the cause, and the handshake's failure is the cause of that.
  return cause?.code === error.code ? cause : getTransportError(cause?.cause)
}

export interface OpeningContext {
  readonly server: string
  /** Signal of the handshake. Aborted if this client ended it. */
  readonly signal: AbortSignal
  /** Loss of the previous session, if there was one. */
  readonly loss: TransportError | undefined
  /** Reason why the server may not have answered. */
  readonly evidence: TransportError | undefined
}

/**
 * Returns the error for all calls that waited for a session that could not be opened. Their requests were not
 * sent: a connection that broke during the handshake leaves no doubt about them.
 */
export function toOpeningError(error: unknown, context: OpeningContext): unknown {
  const { server, signal, loss, evidence } = context
  const failure = getTransportError(error)
  if (signal.aborted && !isTimeout(signal)) return signal.reason
  const response = signal.aborted ? undefined : toResponse(error, failure)
  if (response !== undefined) return response
  if (McpClientError.is(error)) return error
  const what = `initialize of MCP server "${server}"`
  const reason = failure ?? (signal.aborted ? evidence : undefined) ?? error
  const cause = loss === undefined ? reason : loss.with({ cause: reason })
  const { retryAfterMs } = failure ?? {}
  const outcome = 'not-executed'
  const options = { server, outcome, retryAfterMs, stderr: getStderr(reason), cause } as const
  if (signal.aborted) {
    const advice = isNotSignedIn(evidence)
      ? `, because ${getReason(evidence)}. Raise handshakeMs`
      : '. Check the server, or raise handshakeMs'
    const message = `${what} failed: ${getMessage(signal.reason)}${advice}`
    return new McpClientError('TIMEOUT', message, options)
  }
  if (failure === undefined) {
    return new McpClientError('UNEXPECTED_RESPONSE', `${what}: ${getMessage(error)}`, options)
  }
  const code = failure.code === 'OUTCOME_UNKNOWN' ? 'UNREACHABLE' : failure.code
  return new McpClientError(code, `${what}: ${getReason(failure)}`, options)
}

function isNotSignedIn(evidence: TransportError | undefined): evidence is TransportError {
  return evidence?.code === 'UNAUTHORIZED'
}

export interface OperationContext extends OperationName {
  readonly server: string
  /** Signal of the operation. Aborted if this client ended it. */
  readonly signal: AbortSignal
  /** Outcome of the request, over all attempts. */
  readonly outcome: RequestOutcome
  /** Why the server may not have answered. */
  readonly evidence?: TransportError | undefined
  /** Failed attempts of a call with an idempotency key. */
  readonly tried?: Pick<KeyedCall, 'failures' | 'lastError'> | undefined
}

/**
 * Returns the error for the caller of an operation: the reason of an aborted signal, or the SDK's `McpError` if
 * the server responded with an error, both unchanged; else a `McpClientError`.
 */
export function toOperationError(error: unknown, context: OperationContext): unknown {
  const { server, tool, signal, outcome, evidence } = context
  const what = `${getOperationName(context)} of MCP server "${server}"`
  if (signal.aborted) {
    const { reason } = signal
    // `@x/langchain-mcp` has a limit of its own, whose clock stops while a person is asked.
    const isLimit = isTimeout(signal) || (McpClientError.is(reason) && reason.code === 'TIMEOUT')
    if (!isLimit) return reason
    const why = isNotSignedIn(evidence) ? `, because ${getReason(evidence)}` : ''
    const message = `${what} failed: ${getMessage(reason)}${why}${describeAttempts(context)}. Raise timeoutMs to wait longer`
    const { lastError: cause = why === '' ? error : evidence } = context.tried ?? {}
    return new McpClientError('TIMEOUT', message, { server, tool, outcome, cause })
  }
  if (McpClientError.is(error)) return toOwnError(error, context)
  const failure = getTransportError(error)
  const response = toResponse(error, failure)
  if (response !== undefined) return response
  if (error instanceof InputFailure) {
    const { message, cause } = error
    const advice = 'The call cannot be continued'
    const options = { server, tool, outcome, cause }
    return new McpClientError('INPUT_FAILED', `${what}: ${message}. ${advice}`, options)
  }
  if (failure === undefined) {
    if (!(error instanceof UnreadableResult)) return error
    const { result, cause } = error
    const message = `${what} returned an invalid result: report it to the authors of the server`
    const options = { server, tool, outcome: 'executed', result, cause } as const
    return new McpClientError('UNEXPECTED_RESPONSE', message, options)
  }
  // A refusal that proves nothing: the tool may have run.
  const isUnknown = tool !== undefined && failure.code === 'SESSION_LOST' && outcome === 'unknown'
  const code = isUnknown ? 'OUTCOME_UNKNOWN' : failure.code
  const { retryAfterMs } = failure
  const options = {
    server,
    tool,
    outcome,
    retryAfterMs,
    stderr: getStderr(failure),
    cause: failure,
  }
  const message = `${what}: ${getReason(failure)}${describeDoubt(failure, outcome)}`
  return new McpClientError(code, message, options)
}

export interface OperationName {
  /** `tools/call`, `prompts/get`, … */
  readonly method: string
  /** Name of the tool, for `tools/call`. */
  readonly tool?: string | undefined
}

/** Returns the name of an operation in messages: `tool "pay"`, `tools/list`. */
export function getOperationName({ method, tool }: OperationName): string {
  return tool === undefined ? method : `tool "${tool}"`
}

/** Returns the outcome of an attempt that was sent and failed with this error. */
export function getOutcome(error: unknown): RequestOutcome {
  return getTransportError(error)?.outcome ?? 'unknown'
}

/** Returns the error with which the server responded, also with an HTTP error status. Undefined for other errors. */
export function toResponse(
  error: unknown,
  failure: TransportError | undefined = getTransportError(error),
): McpError | undefined {
  if (error instanceof McpError)
    return failure === undefined || isRefusal(failure) ? error : undefined
  if (failure === undefined || !isRefusal(failure)) return undefined
  return McpError.fromError(failure.serverError?.code ?? 0, failure.message, failure)
}

function isRefusal({ code, serverError }: TransportError): boolean {
  return code === 'REJECTED' && serverError !== undefined
}

/** Returns whether a signal aborted at its time limit. */
export function isTimeout({ reason }: AbortSignal): boolean {
  return reason instanceof DeadlineError
}

/**
 * Copies an error that all waiting callers share: of a session that could not be opened, or of a list. The copy has the
 * stack of this caller, and the outcome of all its attempts if the error has one.
 */
function toOwnError(error: McpClientError, { tool, outcome }: OperationContext): McpClientError {
  if (error.outcome !== undefined && error.outcome !== 'not-executed') return error
  const { code, message, server, retryAfterMs, stderr } = error
  const cause = outcome === 'not-executed' ? error.cause : error
  const options = { server, tool, outcome, retryAfterMs, stderr, cause }
  const own =
    error.outcome === undefined
      ? new McpClientError(code, message, error)
      : new McpClientError(code, message + describeDoubt(error, outcome), options)
  Error.captureStackTrace(own, toOperationError) // V8 keeps 10 frames: room for those of the caller
  return own
}

/** Adds to an error what a call with an idempotency key has tried. */
function describeAttempts({ tried, outcome }: OperationContext): string {
  if (tried === undefined || tried.failures === 0) return ''
  const advice =
    outcome === 'unknown'
      ? '. The tool may have run: repeat the call with the same key'
      : '. The tool was not called'
  const { failures, lastError } = tried
  const attempts = failures === 1 ? '1 attempt' : `${failures} attempts`
  return `, in ${attempts} with its idempotency key. The last one: ${getMessage(lastError)}${advice}`
}

/** Adds to an error that alone would mean that nothing was executed. */
function describeDoubt(error: { readonly outcome: unknown }, outcome: RequestOutcome): string {
  return error.outcome === 'not-executed' && outcome === 'unknown'
    ? ' (an earlier part of the call may have been executed)'
    : ''
}

/** Prefers the message about an invalid field to that of the transport. */
function getReason({ message, cause }: TransportError): string {
  return cause instanceof FieldError ? cause.message : message
}

function getMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** Returns the standard error that an error, or one of its causes, contains. */
function getStderr(error: unknown): string | undefined {
  for (let one = error; one instanceof Error; one = one.cause) {
    if (one instanceof StdioError && one.stderr !== undefined) return one.stderr
  }
  return undefined
}
