import { serverTitle, type McpServerLabel, type McpToolOrigin } from './tool-source.ts'

/**
 * Why a tool call failed. Stable: callers switch on it. "Handle errors" in the README says what each of
 * them means, and what to do.
 */
export type McpToolErrorCode =
  | 'TOOL_FAILED' // the tool ran and reported an error (`isError`)
  | 'SERVER_ERROR' // the server answered with a JSON-RPC error
  | 'SESSION_LOST' // the session ended and could not be opened again
  | 'OUTCOME_UNKNOWN' // sent, never answered: it may have been executed
  | 'TIMEOUT' // no answer in time: it may have been executed
  | 'UNREACHABLE' // no connection: it was not executed
  | 'UNAUTHORIZED' // the server refused the credentials
  | 'INVALID_OUTPUT' // it ran, but its structured result does not fit its own schema
  | 'HTTP_ERROR' // an HTTP answer that is not MCP
  | 'CONFIG' // the server is not set up correctly on this side
  | 'NO_RUN' // it was called outside runInSessionScope(), with `session: 'run'`: it was not executed
  | 'CLOSED' // the client was disposed of meanwhile
  | 'TOOL_REDEFINED' // its definition is not the one that was pinned: it was not executed
  | 'APPROVAL_REQUIRED' // a person has to approve it and cannot be asked: it was not executed
  | 'SCHEMA_CHANGED' // its parameters are others than the model was told; it was not executed
  | 'TOOL_REMOVED' // the server does not offer it any more; it was not executed
  | 'INVALID_STATIC_ARGUMENT' // what is configured for its arguments cannot be used
  | 'INPUT_REQUIRED' // the server wants a person or a model where there is none to ask
  | 'NAME_COLLISION' // two tools want one name, and `onNameCollision` is 'throw'

/** Who can do something about it: `user` whoever configured the agent, `system` time or an operator. */
export type McpToolErrorCategory = 'user' | 'system'

/** Whether the tool was executed, where that is not obvious from the code. */
export type ToolOutcome = 'unknown' | 'not-executed' | 'executed'

export interface McpToolErrorOptions extends ErrorOptions {
  readonly server: McpServerLabel
  /** The name on the wire. */
  readonly toolName: string
  /** @default 'system' */
  readonly category?: McpToolErrorCategory | undefined
  /** @default undefined, where the code says it */
  readonly outcome?: ToolOutcome | undefined
  /** What the server sent. @default undefined */
  readonly artifact?: unknown
}

const BRAND = Symbol.for('langchain-mcp.McpToolError')

/**
 * A call of an MCP tool failed. The message is written for a model: it says what happened and what to
 * do next, and holds no session id, token or query string of ours.
 */
export class McpToolError extends Error {
  override readonly name = 'McpToolError'
  readonly code: McpToolErrorCode
  readonly category: McpToolErrorCategory
  /** Undefined for a server that has none: one that is given by URL, or a client that was handed in. */
  readonly serverSlug: string | undefined
  /** The name on the wire. */
  readonly toolName: string
  /** Undefined where the code says it, or nobody can. */
  readonly outcome: ToolOutcome | undefined
  /** What the server sent, where it sent something: the same artifact that a `ToolMessage` carries. */
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

  /** `instanceof` that also knows errors made by another copy of this package. */
  static is(value: unknown): value is McpToolError {
    return typeof value === 'object' && value !== null && BRAND in value
  }
}

/** A server's own words are passed on to the model, but not a whole page of them. */
const MAX_DETAIL = 1000

/**
 * What went wrong with a call, as an error that a model can act on; `undefined` if the error does not
 * come from MCP (an abort, an interrupt of the graph, a bug): such an error belongs to someone else and
 * is passed on as the same object.
 */
export function toolErrorFrom(error: unknown, origin: McpToolOrigin): McpToolError | undefined {
  if (McpToolError.is(error)) return error
  const code = toolErrorCodeOf(error)
  if (code === undefined || !(error instanceof Error)) return undefined
  const failure = FAILURES[code]
  const outcome = outcomeFrom(error, failure.outcome)
  const detail = DETAILED.has(code) ? `: ${startOf(error.message)}` : '.'
  return new McpToolError(
    code,
    `MCP tool "${origin.toolName}" of server "${serverTitle(origin.server)}" failed. ${adviceFor(failure, outcome)}${detail}`,
    {
      server: origin.server,
      toolName: origin.toolName,
      category: code === 'CONFIG' || code === 'NO_RUN' ? 'user' : 'system',
      outcome,
      cause: error,
    },
  )
}

/** Mistakes of the developer, which no model can repair: they end the run, whatever `onToolError` says. */
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
  /** What happened, as the start of a sentence. */
  readonly what: string
  /** Used where the error has none. */
  readonly outcome?: ToolOutcome | undefined
  /** What a model can do, unless the call may have been executed. */
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

/** What the model reads: what happened, whether the tool was executed, and what to do next. */
function adviceFor({ what, advice }: Failure, outcome: ToolOutcome | undefined): string {
  if (outcome === 'unknown') {
    return `${what}: the call may or may not have been executed. Check what happened before you repeat it`
  }
  const fact = outcome === 'not-executed' ? `${what}, so the tool was not executed` : what
  return advice === undefined ? fact : `${fact}. ${advice}`
}

/** The client knows what became of the call over all attempts; the code alone does not. */
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

/** Where the original message tells the model or the operator more than the advice does. */
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

/** By name and code, not by class: the error may come from another copy of a package. */
function toolErrorCodeOf(error: unknown): CallFailureCode | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined
  switch (error.name) {
    case 'McpClientError':
      return codeOfOurs(error.code)
    case 'TransportError':
      // A refusal that is not certain proves nothing.
      return error.code === 'SESSION_LOST' && !('certain' in error && error.certain === true)
        ? 'OUTCOME_UNKNOWN'
        : codeOfOurs(error.code)
    case 'McpError':
    case 'ProtocolError':
      // Our transport tells the SDK's client of its own failures in the `data` of a JSON-RPC error.
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
