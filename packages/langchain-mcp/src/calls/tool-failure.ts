import { McpToolError, type McpToolErrorCode, type ToolOutcome } from '../mcp-tool-error.ts'
import { serverTitle, type McpToolOrigin } from '../tool-origin.ts'

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
