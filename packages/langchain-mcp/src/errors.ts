import { CodedError, withoutErrorLink } from '@x/internal'
import { serverTitle, type McpToolOrigin } from './tool-source.ts'

/** Reasons for a failed tool call. Stable, for `switch`. docs/reference/errors.md explains each code. */
export type McpToolErrorCode =
  | 'TOOL_FAILED' // the tool ran and reported an error (`isError`)
  | 'SERVER_ERROR' // the server answered with a JSON-RPC error
  | 'SESSION_LOST' // the session ended and could not be opened again
  | 'OUTCOME_UNKNOWN' // sent, never answered: it may have been executed
  | 'TIMEOUT' // no answer in time: it may have been executed
  | 'UNREACHABLE' // no connection: not executed
  | 'UNAUTHORIZED' // the server refused the credentials, or there is no token of the user
  | 'INVALID_OUTPUT' // executed, but the structured result does not fit the tool's own schema. Only with `onToolError: 'throw'` if the result can be read: else it is shown with a note
  | 'HTTP_ERROR' // an HTTP response that is not MCP
  | 'CONFIG' // the server or an option is not set up correctly
  | 'NO_RUN' // called outside runInSessionScope(), with `session: 'run'`: not executed
  | 'CLOSED' // the client was disposed of during the call
  | 'TOOL_REDEFINED' // the definition differs from the pinned one: not executed, unless `outcome` is 'unknown'
  | 'SCHEMA_CHANGED' // the parameters differ from the ones that the model saw: not executed
  | 'TOOL_REMOVED' // the server no longer offers the tool: not executed
  | 'INVALID_STATIC_ARGUMENT' // an argument property cannot be used
  | 'INPUT_REQUIRED' // the server asks a person or a model, and there is none to ask
  | 'TASK_FAILED' // the server continued the call as a task, which failed or was cancelled: it may have been executed
  | 'TASK_EXPIRED' // the server does not keep the task any more, or does not know it: it may have been executed

/**
 * Who can correct a failure: `user` is the person who configured the agent; `system` is an operator, or
 * time.
 */
export type McpToolErrorCategory = 'user' | 'system'

/** Execution state of a failed call, if the code does not imply it. */
export type ToolOutcome = 'unknown' | 'not-executed' | 'executed'

export interface McpToolErrorOptions extends ErrorOptions, McpToolOrigin {
  /** @default 'system' */
  readonly category?: McpToolErrorCategory | undefined
  /** @default undefined, if the code implies it */
  readonly outcome?: ToolOutcome | undefined
  /** The server's answer: its result if `outcome` is `executed`, else an artifact. @default undefined */
  readonly artifact?: unknown
}

const BRAND = Symbol.for('langchain-mcp.McpToolError')

/**
 * A failed call of an MCP tool. The message is written for a model: it says what happened and what to do
 * next. It contains no session id, token or query string of this package. The address of the documentation is in the
 * stack, for people; the message has it too if no model can correct the error.
 */
export class McpToolError extends CodedError<McpToolErrorCode> {
  override readonly name = 'McpToolError'
  readonly category: McpToolErrorCategory
  /** Undefined for a server that is given by URL, and for a client of the caller. */
  readonly serverSlug: string | undefined
  /** Name of the tool on the server. */
  readonly toolName: string
  /** Undefined if the code implies it, or if it cannot be known. */
  readonly outcome: ToolOutcome | undefined
  /** The artifact of the server's answer, as in a `ToolMessage`. Undefined without an answer. */
  readonly artifact: unknown

  constructor(code: McpToolErrorCode, message: string, options: McpToolErrorOptions) {
    super(code, message.toWellFormed(), options)
    if (!isForTheCaller(this)) {
      const { stack = '' } = this // it is made when it is read first, from the message of that moment
      this.message = withoutErrorLink(this.message)
      this.stack = stack
    }
    this.category = options.category ?? 'system'
    this.serverSlug = options.server.slug
    this.toolName = options.toolName
    this.outcome = options.outcome
    this.artifact = options.artifact
    Object.defineProperty(this, BRAND, { value: true })
  }

  /** `instanceof` that also recognises errors of another copy of this package. */
  static is(value: unknown): value is McpToolError {
    return typeof value === 'object' && value !== null && BRAND in value
  }
}

interface Failure {
  /** The event, as the start of a sentence. */
  readonly what: string
  /** Used if the error has no outcome of its own. */
  readonly outcome?: ToolOutcome | undefined
  /** Advice for the model, unless the call may have been executed. */
  readonly advice?: string | undefined
}

const AGAIN_LATER = 'Try again later'

const FAILURES = {
  SESSION_LOST: {
    what: 'The connection to the server ended during the call and could not be re-established',
    advice: 'This usually passes: try again later',
  },
  OUTCOME_UNKNOWN: { what: 'The call was sent, but no usable answer came', outcome: 'unknown' },
  TIMEOUT: { what: 'No answer came in time', outcome: 'unknown', advice: AGAIN_LATER },
  UNREACHABLE: {
    what: 'The server cannot be reached',
    outcome: 'not-executed',
    advice: AGAIN_LATER,
  },
  UNAUTHORIZED: {
    what: 'The server refused the credentials',
    outcome: 'not-executed',
    advice: 'Repeating the call will not help: tell the user that access has to be granted',
  },
  SERVER_ERROR: { what: 'The server answered with an error' },
  HTTP_ERROR: { what: 'The answer of the server cannot be used', outcome: 'unknown' },
  INVALID_OUTPUT: {
    what: 'Its result does not fit the schema that it declares',
    outcome: 'executed',
  },
  CONFIG: { what: 'The server is not set up correctly', outcome: 'not-executed' },
  NO_RUN: {
    what: 'The session of this server belongs to a run, and the call was made outside of one',
    outcome: 'not-executed',
  },
  CLOSED: { what: 'The client of this server was closed', outcome: 'unknown' },
  TASK_FAILED: { what: 'The server ran it as a task, which did not complete', outcome: 'unknown' },
  TASK_EXPIRED: {
    what: 'The server ran it as a task, and no longer has its result',
    outcome: 'unknown',
  },
  INPUT_REQUIRED: { what: 'It needs an answer, and nobody gave one', outcome: 'unknown' },
} as const satisfies Partial<Record<McpToolErrorCode, Failure>>

type CallFailureCode = keyof typeof FAILURES

/** Codes for which the text says everything. For the others, the original message follows. */
const WITHOUT_DETAIL: ReadonlySet<McpToolErrorCode> = new Set<McpToolErrorCode>([
  'SESSION_LOST',
  'TIMEOUT',
  'UNAUTHORIZED',
])

/** Characters of the original message that the model sees. */
const MAX_DETAIL = 1000

/** Mistakes of the developer. */
const FOR_THE_CALLER: ReadonlySet<McpToolErrorCode> = new Set<McpToolErrorCode>([
  'CONFIG',
  'NO_RUN',
  'CLOSED',
  'INVALID_STATIC_ARGUMENT',
])

/** Returns true for errors that end the run for every `onToolError`, because a model cannot correct them. */
export function isForTheCaller({ code, cause }: McpToolError): boolean {
  return FOR_THE_CALLER.has(code) || lacksToken(cause)
}

/** The credentials of the user gave no token: no server has refused one. */
const NO_TOKEN: Failure = { what: 'There is no token for it', outcome: 'not-executed' }

function lacksToken(error: unknown): boolean {
  if (!(error instanceof Error) || !isOurs(error)) return false
  const isUnauthorized = 'code' in error && error.code === 'UNAUTHORIZED'
  if (error.name === 'McpClientError') return isUnauthorized && lacksToken(error.cause)
  return isUnauthorized && !('status' in error && error.status !== undefined)
}

/**
 * Returns the error of a call as an error that a model can act on. Returns undefined for an error that is
 * not from MCP (an abort, an interrupt of the graph, a bug), which must be rethrown unchanged.
 */
export function toolErrorFrom(error: unknown, origin: McpToolOrigin): McpToolError | undefined {
  if (McpToolError.is(error)) return error
  const code = codeFrom(error)
  if (code === undefined || !(error instanceof Error)) return undefined
  const isUnsent = lacksToken(error)
  const { what, advice, outcome: implied }: Failure = isUnsent ? NO_TOKEN : FAILURES[code]
  const outcome = outcomeFrom(error) ?? implied
  const text = textOf(origin, { what, advice, outcome })
  const detail = withoutErrorLink(error.message)
  const shortened =
    detail.length <= MAX_DETAIL ? detail : `${detail.slice(0, MAX_DETAIL).toWellFormed()}…` // providers refuse half of a character
  const isWhole = WITHOUT_DETAIL.has(code) && !isUnsent
  return new McpToolError(code, isWhole ? `${text}.` : `${text}: ${shortened}`, {
    ...origin,
    category: code === 'CONFIG' || code === 'NO_RUN' ? 'user' : 'system',
    outcome,
    artifact: 'result' in error ? error.result : undefined,
    cause: error,
  })
}

/** Returns the text for the model, without a full stop. */
function textOf(origin: McpToolOrigin, { what, advice, outcome }: Failure): string {
  if (outcome === 'unknown') return unknownOutcomeText(origin, what)
  if (outcome === 'executed') return `${toolTitle(origin)} was executed. ${what}`
  const event = outcome === 'not-executed' ? `${what}, so the tool was not executed` : what
  return [failedText(origin), event, ...(advice === undefined ? [] : [advice])].join('. ')
}

/** Returns the start of the text about a failed call. */
export function failedText(origin: McpToolOrigin): string {
  return `${toolTitle(origin)} failed`
}

function toolTitle({ server, toolName }: McpToolOrigin): string {
  return `MCP tool "${toolName}" of server "${serverTitle(server)}"`
}

/**
 * Returns the text for the model, without a full stop, about a call whose outcome is unknown. `what` is the
 * event, as a sentence without a full stop. Advice, or the message of the client, may follow.
 */
export function unknownOutcomeText(origin: McpToolOrigin, what: string): string {
  return `${toolTitle(origin)} may or may not have been executed. ${what}. Check what happened before you repeat the call`
}

/** Returns the outcome of all attempts, which the client knows. */
function outcomeFrom(error: Error): ToolOutcome | undefined {
  const [outcome] = [dataOf(error), error]
    .filter((one) => isOurs(one))
    .map((one) => ('outcome' in one ? one.outcome : undefined))
  return outcome === 'unknown' || outcome === 'not-executed' || outcome === 'executed'
    ? outcome
    : undefined
}

/** Goes by name, not by class, because the error may come from another copy of a package. */
function isOurs(error: unknown): error is Error {
  return (
    error instanceof Error && (error.name === 'McpClientError' || error.name === 'TransportError')
  )
}

/** Our transport passes its own failures to the SDK's client in the `data` of a JSON-RPC error. */
function dataOf(error: Error): unknown {
  return 'data' in error ? error.data : undefined
}

function codeFrom(error: unknown): CallFailureCode | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined
  const { name, code } = error
  if (name === 'McpError' || name === 'ProtocolError') {
    return codeFrom(dataOf(error)) ?? 'SERVER_ERROR'
  }
  if (!isOurs(error)) return undefined
  const isCertain = 'certain' in error && error.certain === true
  // Only a certain refusal proves that nothing was executed.
  if (name === 'TransportError' && code === 'SESSION_LOST' && !isCertain) return 'OUTCOME_UNKNOWN'
  if (code === 'NOT_FOUND' || code === 'REENTRANT' || code === 'TASK_REFERENCE') return 'CONFIG'
  if (code === 'TASK_CANCELLED') return 'TASK_FAILED'
  if (code === 'TASK_UNKNOWN') return 'TASK_EXPIRED'
  if (code === 'TASK_INPUT' || code === 'INPUT_FAILED') return 'INPUT_REQUIRED'
  return isCallFailureCode(code) ? code : 'HTTP_ERROR'
}

function isCallFailureCode(code: unknown): code is CallFailureCode {
  return typeof code === 'string' && Object.hasOwn(FAILURES, code)
}
