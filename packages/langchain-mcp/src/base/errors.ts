import { serverTitle, type McpServerLabel, type McpToolOrigin } from './tool-source.ts'

/** Reasons for a failed tool call. Stable, for `switch`. "Errors" in the README explains each code. */
export type McpToolErrorCode =
  | 'TOOL_FAILED' // the tool ran and reported an error (`isError`)
  | 'SERVER_ERROR' // the server answered with a JSON-RPC error
  | 'SESSION_LOST' // the session ended and could not be opened again
  | 'OUTCOME_UNKNOWN' // sent, never answered: it may have been executed
  | 'TIMEOUT' // no answer in time: it may have been executed
  | 'UNREACHABLE' // no connection: not executed
  | 'UNAUTHORIZED' // the server refused the credentials
  | 'INVALID_OUTPUT' // executed, but the structured result does not fit the tool's own schema
  | 'HTTP_ERROR' // an HTTP response that is not MCP
  | 'CONFIG' // the server or an option is not set up correctly
  | 'NO_RUN' // called outside runInSessionScope(), with `session: 'run'`: not executed
  | 'CLOSED' // the client was disposed of during the call
  | 'TOOL_REDEFINED' // the definition differs from the pinned one: not executed
  | 'APPROVAL_REQUIRED' // a person has to approve the call and cannot be asked: not executed
  | 'SCHEMA_CHANGED' // the parameters differ from the ones that the model saw: not executed
  | 'TOOL_REMOVED' // the server no longer offers the tool: not executed
  | 'INVALID_STATIC_ARGUMENT' // an argument property cannot be used
  | 'INPUT_REQUIRED' // the server asks a person or a model, and there is none to ask
  | 'NAME_COLLISION' // two tools have the same name, and `onNameCollision` is 'throw'

/**
 * Who can correct a failure: `user` is the person who configured the agent; `system` is an operator, or
 * time.
 */
export type McpToolErrorCategory = 'user' | 'system'

/** Execution state of a failed call, if the code does not imply it. */
export type ToolOutcome = 'unknown' | 'not-executed' | 'executed'

export interface McpToolErrorOptions extends ErrorOptions {
  readonly server: McpServerLabel
  /** Name of the tool on the server. */
  readonly toolName: string
  /** @default 'system' */
  readonly category?: McpToolErrorCategory | undefined
  /** @default undefined, if the code implies it */
  readonly outcome?: ToolOutcome | undefined
  /** The server's answer. @default undefined */
  readonly artifact?: unknown
}

const BRAND = Symbol.for('langchain-mcp.McpToolError')

/**
 * A failed call of an MCP tool. The message is written for a model: it says what happened and what to do
 * next. It contains no session id, token or query string of this package.
 */
export class McpToolError extends Error {
  override readonly name = 'McpToolError'
  readonly code: McpToolErrorCode
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
    super(message, 'cause' in options ? { cause: options.cause } : undefined)
    this.code = code
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

/** Characters of a server's message that the model sees. */
const MAX_DETAIL = 1000

/**
 * Returns the error of a call as an error that a model can act on. Returns undefined for an error that is
 * not from MCP (an abort, an interrupt of the graph, a bug), which must be rethrown unchanged.
 */
export function toolErrorFrom(error: unknown, origin: McpToolOrigin): McpToolError | undefined {
  if (McpToolError.is(error)) return error
  const code = toolErrorCodeOf(error)
  if (code === undefined || !(error instanceof Error)) return undefined
  const failure = FAILURES[code]
  const outcome = outcomeFrom(error, failure.outcome)
  const detail = DETAILED.has(code) ? `: ${startOf(error.message)}` : '.'
  return new McpToolError(code, `${textFor(failure, outcome, origin)}${detail}`, {
    server: origin.server,
    toolName: origin.toolName,
    category: code === 'CONFIG' || code === 'NO_RUN' ? 'user' : 'system',
    outcome,
    cause: error,
  })
}

/**
 * Returns true for mistakes of the developer. A model cannot correct them, so they end the run for every
 * `onToolError`.
 */
export function isForTheCaller(error: McpToolError): boolean {
  return FOR_THE_CALLER.has(error.code)
}

const FOR_THE_CALLER: ReadonlySet<McpToolErrorCode> = new Set<McpToolErrorCode>([
  'CONFIG',
  'NO_RUN',
  'CLOSED',
  'INVALID_STATIC_ARGUMENT',
])

type CallFailureCode = Exclude<
  McpToolErrorCode,
  | 'TOOL_FAILED'
  | 'TOOL_REDEFINED'
  | 'APPROVAL_REQUIRED'
  | 'INPUT_REQUIRED'
  | 'NAME_COLLISION'
  | 'SCHEMA_CHANGED'
  | 'TOOL_REMOVED'
  | 'INVALID_STATIC_ARGUMENT'
>

interface Failure {
  /** The event, as the start of a sentence. */
  readonly what: string
  /** Used if the error has no outcome of its own. */
  readonly outcome?: ToolOutcome | undefined
  /** Advice for the model, unless the call may have been executed. */
  readonly advice?: string
}

const AGAIN_LATER = 'Try again later'

const FAILURES: Readonly<Record<CallFailureCode, Failure>> = {
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
    what: 'The tool was executed, but its result does not fit the schema that it declares',
    outcome: 'executed',
  },
  CONFIG: { what: 'The server is not set up correctly', outcome: 'not-executed' },
  NO_RUN: {
    what: 'The session of this server belongs to a run, and the call was made outside of one',
    outcome: 'not-executed',
  },
  CLOSED: { what: 'The client of this server was closed', outcome: 'unknown' },
}

/** Returns the text for the model, without a full stop: the event, the execution state, and what to do next. */
function textFor(
  { what, advice }: Failure,
  outcome: ToolOutcome | undefined,
  origin: McpToolOrigin,
): string {
  if (outcome === 'unknown') return unknownOutcomeText(origin, what)
  const fact = outcome === 'not-executed' ? `${what}, so the tool was not executed` : what
  const failed = `MCP tool "${origin.toolName}" of server "${serverTitle(origin.server)}" failed. ${fact}`
  return advice === undefined ? failed : `${failed}. ${advice}`
}

/**
 * Returns the text for the model, without a full stop, about a call whose outcome is unknown. `what` is the
 * event, as a sentence without a full stop.
 */
export function unknownOutcomeText({ server, toolName }: McpToolOrigin, what: string): string {
  return `MCP tool "${toolName}" of server "${serverTitle(server)}" may or may not have been executed. ${what}. Check what happened before you repeat the call`
}

/** The client knows the outcome of all attempts. The code alone does not imply it. */
function outcomeFrom(error: Error, fallback: ToolOutcome | undefined): ToolOutcome | undefined {
  const failure = 'data' in error && isFailure(error.data) ? error.data : error
  if (!isFailure(failure) || !('outcome' in failure)) return fallback
  const { outcome } = failure
  return outcome === 'unknown' || outcome === 'not-executed' || outcome === 'executed'
    ? outcome
    : fallback
}

function isFailure(error: unknown): error is Error {
  return (
    error instanceof Error && (error.name === 'McpClientError' || error.name === 'TransportError')
  )
}

/** Codes whose original message is more specific than the advice. */
const DETAILED: ReadonlySet<McpToolErrorCode> = new Set<McpToolErrorCode>([
  'OUTCOME_UNKNOWN',
  'UNREACHABLE',
  'SERVER_ERROR',
  'HTTP_ERROR',
  'INVALID_OUTPUT',
  'CONFIG',
  'NO_RUN',
  'CLOSED',
])

/** Goes by name and code, not by class, because the error may come from another copy of a package. */
function toolErrorCodeOf(error: unknown): CallFailureCode | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined
  switch (error.name) {
    case 'McpClientError':
      return codeOfOurs(error.code)
    case 'TransportError':
      // Only a certain refusal proves that nothing was executed.
      return error.code === 'SESSION_LOST' && !('certain' in error && error.certain === true)
        ? 'OUTCOME_UNKNOWN'
        : codeOfOurs(error.code)
    case 'McpError':
    case 'ProtocolError':
      // Our transport passes its own failures to the SDK's client in the `data` of a JSON-RPC error.
      return ('data' in error ? toolErrorCodeOf(error.data) : undefined) ?? 'SERVER_ERROR'
    default:
      return undefined
  }
}

function codeOfOurs(code: unknown): CallFailureCode {
  switch (code) {
    case 'SESSION_LOST':
    case 'OUTCOME_UNKNOWN':
    case 'TIMEOUT':
    case 'UNREACHABLE':
    case 'UNAUTHORIZED':
    case 'INVALID_OUTPUT':
    case 'CONFIG':
    case 'NO_RUN':
    case 'CLOSED':
      return code
    case 'NOT_FOUND':
    case 'REENTRANT':
      return 'CONFIG'
    default:
      return 'HTTP_ERROR'
  }
}

function startOf(text: string): string {
  return text.length <= MAX_DETAIL ? text : `${text.slice(0, MAX_DETAIL)}…`
}
