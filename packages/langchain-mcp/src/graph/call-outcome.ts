import { isRecord } from '@x/internal'
import type { TaskReference } from '@x/mcp-client'
import type { InputRequest } from '@x/mcp-transport'
import { withoutSecretsInError } from '../secrets.ts'
import { isForTheCaller, McpToolError, toolErrorFrom, unknownOutcomeText } from '../errors.ts'
import type { McpToolOrigin, ToolResult } from '../tool-source.ts'
import type { AccessPage } from './authorization-to-interrupt.ts'

/** The server needs the answer of a person. */
export interface AskedOutcome {
  readonly kind: 'asked'
  readonly requests: Readonly<Record<string, InputRequest>>
  /** Answers of handlers to other questions of the same round. */
  readonly answered: Readonly<Record<string, unknown>>
  /** Opaque state of the server. Not for people. */
  readonly requestState: string | undefined
  /** True if the request is still open in the process that sent it. */
  readonly isHeld: boolean
  /** The task that asks, if the server continues the call as one. */
  readonly task: TaskReference | undefined
}

/** The server continues the call as a task. */
export interface TaskOutcome {
  readonly kind: 'task'
  readonly reference: TaskReference
  /** Text of the server for people. */
  readonly message: string | undefined
}

/** A person has to grant access first. Nothing was executed. */
export interface AuthorizationOutcome extends AccessPage {
  readonly kind: 'authorization'
  /** Why the previous callback of the authorization server failed. */
  readonly problem: string | undefined
}

/**
 * The outcome of one round of a call. It is plain data, because a checkpoint stores it, and another process
 * may continue the call.
 */
export type CallOutcome = (
  | { readonly kind: 'result'; readonly result: ToolResult }
  | AskedOutcome
  | TaskOutcome
  | AuthorizationOutcome
  | FailedOutcome
) & {
  /**
   * Time that the server has used for the call up to here, in milliseconds, so that `timeoutMs` limits the whole call. In a
   * checkpoint that does not contain it, the limit starts anew.
   */
  readonly usedMs?: number
}

interface FailedOutcome extends Pick<McpToolError, 'code' | 'message' | 'outcome' | 'artifact'> {
  readonly kind: 'failed'
}

export function failedOutcomeFrom(error: McpToolError): FailedOutcome {
  const { code, message, outcome, artifact } = error
  return { kind: 'failed', code, message, outcome, artifact }
}

export function errorFrom(
  failed: FailedOutcome,
  { server, toolName }: McpToolOrigin,
): McpToolError {
  const { code, message, outcome, artifact } = failed
  return new McpToolError(code, message, { server, toolName, outcome, artifact })
}

/** Returns the outcome of a call whose record was lost. It may have been executed. */
export function unknownOutcome(origin: McpToolOrigin): FailedOutcome {
  const what = 'A run sent the call, and ended before it stored the answer'
  return {
    kind: 'failed',
    code: 'OUTCOME_UNKNOWN',
    outcome: 'unknown',
    message: `${unknownOutcomeText(origin, what)}.`,
    artifact: undefined,
  }
}

/** Reads an outcome from a checkpoint or a store. Checks only its kind, because this package wrote it. */
export function callOutcomeFrom(value: unknown): CallOutcome {
  if (isCallOutcome(value)) return value
  throw new TypeError(
    'The checkpoint or the store does not contain the outcome of an MCP call: something else has changed it',
  )
}

function isCallOutcome(value: unknown): value is CallOutcome {
  if (!isRecord(value)) return false
  const { kind, result, requests, answered, reference, url, code, message } = value
  return (
    (kind === 'result' && isRecord(result)) ||
    (kind === 'asked' && isRecord(requests) && isRecord(answered)) ||
    (kind === 'task' && isRecord(reference)) ||
    (kind === 'authorization' && typeof url === 'string') ||
    (kind === 'failed' && typeof code === 'string' && typeof message === 'string')
  )
}

/** The error for a question to a person, if other calls in the same task prevent an interrupt. */
export function siblingsError(origin: McpToolOrigin): McpToolError {
  const what =
    'It asked a person, but its node of the graph makes several calls at once and cannot be interrupted: the call stopped at the question'
  const advice =
    'If you repeat it, call this tool alone. The author of the graph should fan the calls out with fanOutToolCalls() or use createAgent().'
  return inputError(origin, { what, advice })
}

/** The error for a question that has no handler, or whose handler failed. */
export function noAnswerError(
  origin: McpToolOrigin,
  method: string,
  options: ErrorOptions = {},
): McpToolError {
  const { cause } = options
  const why = cause instanceof Error ? ` (${cause.message})` : ''
  const what = `It needs input (${method}), and no handler can give it here${why}: the call stopped there`
  return inputError(origin, { what, advice: 'Tell the user.' }, options)
}

/** The error for a server that keeps asking. Earlier rounds may have had effects. */
export function tooManyRoundsError(origin: McpToolOrigin, maxRounds: number): McpToolError {
  const what = `It still asked for input after ${maxRounds} rounds, so the call was ended`
  return inputError(origin, { what, advice: 'It will probably ask again: tell the user.' })
}

/** The server had started the call when it asked, so the outcome is unknown. */
function inputError(
  origin: McpToolOrigin,
  { what, advice }: { readonly what: string; readonly advice: string },
  options: ErrorOptions = {},
): McpToolError {
  const message = `${unknownOutcomeText(origin, what)}. ${advice}`
  return new McpToolError('INPUT_REQUIRED', message, { ...options, ...origin, outcome: 'unknown' })
}

/**
 * Returns the error that ends the run of the agent: a mistake of the developer, or an abort. Returns undefined
 * for any other error.
 */
export function fatalFrom(
  error: unknown,
  origin: McpToolOrigin,
  secrets: readonly string[],
): { readonly error: unknown } | undefined {
  const failure = toolErrorFrom(error, origin)
  if (failure === undefined || !isForTheCaller(failure)) return undefined
  const { code, cause } = failure
  const abort = code === 'NO_RUN' && cause instanceof Error ? cause.cause : undefined
  return { error: abort ?? withoutSecretsInError(failure, secrets) }
}
