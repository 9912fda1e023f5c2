import { isRecord } from '@x/internal'
import type { HandlerContext } from '@x/mcp-client'
import { McpToolError, type McpToolErrorCode, type ToolOutcome } from '../base/errors.ts'
import {
  serverTitle,
  type McpToolOrigin,
  type ToolCallOptions,
  type ToolResult,
} from '../base/tool-source.ts'
import type { ElicitationAnswer } from './interrupt-value.ts'
import type { ToolCaller } from './live-call.ts'
import { isForPerson, ownAnswer, type OwnHandlers } from './own-handlers.ts'

/** A question of a server, as it came. */
export interface Question {
  readonly method: string
  readonly params?: Readonly<Record<string, unknown>> | undefined
}

/** The server wants a person before it goes on. */
export interface AskedOutcome {
  readonly kind: 'asked'
  readonly requests: Readonly<Record<string, Question>>
  /** What handlers of ours have answered already, beside these. */
  readonly answered: Readonly<Record<string, unknown>>
  /** Opaque; not for people. */
  readonly requestState?: string
  /** The call is still open, in the process that made it. */
  readonly isHeld: boolean
}

/** A person has to grant access first; nothing was executed. */
export interface AuthorizationOutcome {
  readonly kind: 'authorization'
  readonly url: string
  /** Why what a person came back with was of no use. */
  readonly problem?: string
}

/**
 * What became of one round of a call: plain data, because a checkpoint keeps it, and another process may
 * go on with it.
 */
export type CallOutcome =
  | { readonly kind: 'result'; readonly result: ToolResult }
  | AskedOutcome
  | AuthorizationOutcome
  | FailedOutcome

interface FailedOutcome {
  readonly kind: 'failed'
  readonly code: McpToolErrorCode
  readonly message: string
  readonly outcome?: ToolOutcome
  readonly artifact?: unknown
}

export function failedOutcomeFrom(error: McpToolError): FailedOutcome {
  const { code, message, outcome, artifact } = error
  return {
    kind: 'failed',
    code,
    message,
    ...(outcome !== undefined && { outcome }),
    ...(artifact !== undefined && { artifact }),
  }
}

export function errorFrom(
  failed: FailedOutcome,
  { server, toolName }: McpToolOrigin,
): McpToolError {
  const { code, message, outcome, artifact } = failed
  return new McpToolError(code, message, { server, toolName, outcome, artifact })
}

/** What LangGraph and the store have lost may have been executed. */
export function unknownOutcome({ server, toolName }: McpToolOrigin): FailedOutcome {
  return {
    kind: 'failed',
    code: 'OUTCOME_UNKNOWN',
    outcome: 'unknown',
    message: `MCP tool "${toolName}" of server "${serverTitle(server)}" failed. The call was sent by a run that ended before its answer was kept: it may or may not have been executed. Check what happened before you repeat it.`,
  }
}

/** From a checkpoint or a store, which only hold what we put there: so it is looked at, not taken apart. */
export function callOutcomeFrom(value: unknown): CallOutcome {
  if (isCallOutcome(value)) return value
  throw new TypeError('The checkpoint holds something else than the outcome of an MCP call')
}

function isCallOutcome(value: unknown): value is CallOutcome {
  if (!isRecord(value)) return false
  switch (value['kind']) {
    case 'result':
      return isRecord(value['result'])
    case 'asked':
      return isRecord(value['requests']) && isRecord(value['answered'])
    case 'authorization':
      return typeof value['url'] === 'string'
    case 'failed':
      return typeof value['code'] === 'string' && typeof value['message'] === 'string'
    default:
      return false
  }
}

/** Tells the model of a question that was declined because it may have belonged to another call. */
export function withMissedQuestion(
  result: ToolResult,
  { server }: McpToolOrigin,
  { hasMissedQuestion }: ToolCaller,
): ToolResult {
  if (!hasMissedQuestion) return result
  const note = `[MCP server "${serverTitle(server)}" asked a question during this call and did not say which call it was for. Several calls could have caused it, so it was declined. If this tool says that it got no answer, call it again, and no other tool with it.]`
  return { ...result, note }
}

/** A person is needed, and siblings of the call keep the graph from being stopped. */
function crowded(origin: McpToolOrigin): McpToolError {
  return inputError(
    origin,
    'It needs the answer of a person, and this node of the graph makes several calls at once, so that nobody can be asked. The call stopped at the question; what the tool did before may have happened. Call this tool alone if it may begin again; the author of the graph should fan the calls out with fanOutToolCalls() or use createAgent().',
  )
}

/** Nobody here answers what the server asks, or whoever does has failed. */
export function unanswerable(
  origin: McpToolOrigin,
  method: string,
  options: ErrorOptions = {},
): McpToolError {
  const { cause } = options
  const why = cause instanceof Error ? ` (${cause.message})` : ''
  const reason = `It needs an input (${method}) that cannot be had here${why}. The call stopped there; what the tool did before may have happened. Tell the user.`
  return inputError(origin, reason, options)
}

/** The server goes on asking. Earlier rounds may have had effects. */
export function endless(origin: McpToolOrigin, maxRounds: number): McpToolError {
  const reason = `It asked for more after ${maxRounds} rounds, and was given up. Do not repeat the call: tell the user.`
  return inputError(origin, reason)
}

/** The server has begun the call when it asks: the outcome is unknown. */
function inputError(
  { server, toolName }: McpToolOrigin,
  reason: string,
  options: ErrorOptions = {},
): McpToolError {
  return new McpToolError(
    'INPUT_REQUIRED',
    `MCP tool "${toolName}" of server "${serverTitle(server)}" failed. ${reason}`,
    { ...options, server, toolName, outcome: 'unknown' },
  )
}

/**
 * By what a server without sessions hands a call back: it must know something first (specification
 * 2026-07-28, `InputRequiredResult`).
 */
interface InputRequired {
  readonly inputRequests?: Readonly<Record<string, Question>>
  readonly requestState?: string
}

/** Who answers what is for a person: an interrupt of the graph, a handler, or nobody, and then nothing is sent. */
export type Answering = 'interrupt' | 'handler' | 'nobody'

interface Answerer {
  readonly answering: Answering
  readonly handlers: OwnHandlers
  readonly origin: McpToolOrigin
  readonly signal: AbortSignal | undefined
}

/** The client has checked it already; this is for the compiler. */
export function isInputRequired(value: ToolResult): value is ToolResult & InputRequired {
  return value.type === 'input_required'
}

/**
 * Answers what needs no person, and leaves the rest for one.
 *
 * @throws McpToolError `INPUT_REQUIRED` for what nobody answers; the reason of `signal`
 */
export async function askedOutcomeFrom(
  { inputRequests = {}, requestState }: InputRequired,
  { answering, handlers, origin, signal = new AbortController().signal }: Answerer,
): Promise<AskedOutcome> {
  const context: HandlerContext = { signal, scope: undefined }
  const requests: Record<string, Question> = {}
  const answered: Record<string, unknown> = {}
  for (const [key, question] of Object.entries(inputRequests)) {
    if (isForPerson(question) && answering === 'interrupt') {
      requests[key] = question
      continue
    }
    if (isForPerson(question) && answering === 'nobody') throw crowded(origin)
    // One after the other: most servers ask one thing.
    const answer = await ownAnswer(question, handlers, context).catch((cause: unknown) => {
      signal.throwIfAborted()
      throw unanswerable(origin, question.method, { cause })
    })
    if (answer === undefined) throw unanswerable(origin, question.method)
    answered[key] = answer
  }
  return {
    kind: 'asked',
    requests,
    answered,
    ...(requestState !== undefined && { requestState }),
    isHeld: false,
  }
}

/** What the call goes on with: what was answered here, and by a person. */
export function resumeFrom(
  { requestState, answered }: AskedOutcome,
  answers: Readonly<Record<string, ElicitationAnswer>> = {},
): NonNullable<ToolCallOptions['resume']> {
  return {
    ...(requestState !== undefined && { requestState }),
    inputResponses: { ...answered, ...answers },
  }
}
