import { McpError } from '@modelcontextprotocol/sdk/types.js'
import { TransportError } from '@x/mcp-transport'
import type { RequestOutcome } from '@x/mcp-transport'
import { DeadlineError } from './deadline.ts'
import { FieldError } from './server-fields.ts'
import { McpClientError } from './mcp-client-error.ts'
import { getStderr } from './stdio/child-output.ts'

/** The transport's own error inside what the SDK rejected with, if it was the transport that failed. */
export function failureFrom(error: unknown): TransportError | undefined {
  if (TransportError.is(error)) return error
  return error instanceof McpError && TransportError.is(error.data) ? error.data : undefined
}

/** Whether the server, or a gateway before it, could not be reached or broke off. */
export function isTrouble(failure: TransportError | undefined): boolean {
  if (failure === undefined) return false
  const { code, status = 0 } = failure
  const isGateway = code === 'REJECTED' && status >= 502 && status <= 504
  return isGateway || code === 'UNREACHABLE' || code === 'OUTCOME_UNKNOWN'
}

export interface OpeningContext {
  readonly server: string
  /** Of the handshake: says whether it was this side that ended it. */
  readonly signal: AbortSignal
  /** Why a session had to be opened, where it is not the first one. */
  readonly loss?: TransportError | undefined
  /** What is known of a server that gave no answer. */
  readonly evidence?: TransportError | undefined
}

/**
 * What everybody gets who waited for a session that could not be opened. Whatever they wanted to send
 * was not sent: a connection that broke in the handshake leaves no doubt about *their* request.
 */
export function openingErrorFrom(error: unknown, context: OpeningContext): unknown {
  const { server, signal, loss, evidence } = context
  const failure = failureFrom(error)
  if (signal.aborted && !isTimeUp(signal)) return signal.reason
  if (!signal.aborted && isAnswer(error, failure)) return error
  if (McpClientError.is(error)) return error
  const what = `initialize of MCP server "${server}"`
  const cause = failure ?? (signal.aborted ? evidence : undefined) ?? error
  const story = loss === undefined ? cause : lossBefore(loss, cause)
  const stderr = getStderr(cause)
  const options = { server, outcome: 'not-executed', stderr, cause: story } as const
  if (signal.aborted) return new McpClientError('TIMEOUT', `${what} ${timeUp(signal)}`, options)
  if (failure === undefined) {
    return new McpClientError('UNEXPECTED_RESPONSE', `${what}: ${messageOf(error)}`, options)
  }
  const code = failure.code === 'OUTCOME_UNKNOWN' ? 'UNREACHABLE' : failure.code
  return new McpClientError(code, `${what}: ${reasonIn(failure)}`, options)
}

export interface OperationContext {
  readonly server: string
  readonly method: string
  readonly tool?: string | undefined
  /** Of the operation: says whether it was this side that ended it. */
  readonly signal: AbortSignal
  /** What became of the request, over all attempts. */
  readonly outcome: RequestOutcome
}

/**
 * What the caller of an operation gets. Where the caller gave up, the reason of that, untouched; where the
 * server answered with an error, the SDK's `McpError`, untouched; else a `McpClientError`.
 */
export function thrownFrom(error: unknown, context: OperationContext): unknown {
  const { server, tool, signal, outcome } = context
  const what = `${nameOf(context)} of MCP server "${server}"`
  if (signal.aborted) {
    if (!isTimeUp(signal)) return signal.reason
    const options = { server, tool, outcome, cause: error }
    return new McpClientError('TIMEOUT', `${what} ${timeUp(signal)}`, options)
  }
  if (McpClientError.is(error)) return ownError(error, context)
  const failure = failureFrom(error)
  if (isAnswer(error, failure)) return error
  if (failure === undefined) {
    if (outcome === 'not-executed' || !isInvalidResult(error)) return error
    const message = `${what} was answered with something that is no valid result`
    return new McpClientError('UNEXPECTED_RESPONSE', message, {
      server,
      tool,
      outcome,
      cause: error,
    })
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
  return new McpClientError(
    code,
    `${what}: ${reasonIn(failure)}${doubtOf(failure, outcome)}`,
    options,
  )
}

/** Name of an operation in messages: `tool "pay"`, `tools/list`. */
export function nameOf({
  method,
  tool,
}: {
  readonly method: string
  readonly tool?: string | undefined
}): string {
  return tool === undefined ? method : `tool "${tool}"`
}

/** What became of the request in one attempt, which was sent and failed with this error. */
export function outcomeOf(error: unknown): RequestOutcome {
  return failureFrom(error)?.outcome ?? 'unknown'
}

/** Did the server answer with an error of its own? One that came with an HTTP error status is an answer, too. */
function isAnswer(error: unknown, failure: TransportError | undefined): boolean {
  if (failure === undefined) return error instanceof McpError
  return failure.code === 'REJECTED' && failure.serverError !== undefined
}

/** A result that the SDK's schemas do not accept. Everything else that is local is a mistake to be seen as it is. */
function isInvalidResult(error: unknown): boolean {
  return error instanceof Error && 'issues' in error
}

function isTimeUp({ reason }: AbortSignal): boolean {
  return reason instanceof DeadlineError
}

function timeUp({ reason }: AbortSignal): string {
  const text = messageOf(reason)
  return `gave ${text.charAt(0).toLowerCase()}${text.slice(1)}`
}

/**
 * An error of a session that could not be opened is shared by all callers that waited for it. Each gets one of
 * its own, whose stack leads to its call, with the outcome of all attempts of that call.
 */
function ownError(error: McpClientError, { tool, outcome }: OperationContext): McpClientError {
  if (error.outcome !== 'not-executed') return error
  const { code, message, server, retryAfterMs, stderr } = error
  const cause = outcome === 'not-executed' ? error.cause : error
  const options = { server, tool, outcome, retryAfterMs, stderr, cause }
  return new McpClientError(code, message + doubtOf(error, outcome), options)
}

/** For an error that by itself says that nothing was executed. */
function doubtOf(error: { readonly outcome: unknown }, outcome: RequestOutcome): string {
  return error.outcome === 'not-executed' && outcome === 'unknown'
    ? ' (an earlier part of the call may have been executed)'
    : ''
}

/** The loss that made a handshake necessary, and behind it the failure of that handshake. */
function lossBefore(loss: TransportError, failure: unknown): TransportError {
  return loss.with({ cause: failure })
}

/** A field of a config that cannot be used says best what is wrong with it. */
function reasonIn({ message, cause }: TransportError): string {
  return cause instanceof FieldError ? cause.message : message
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
