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
  const { advice, outcome } = failureOf(code, error)
  const detail = DETAILED.has(code) ? `: ${startOf(error.message)}` : ''
  return new McpToolError(
    code,
    `MCP tool "${origin.toolName}" of server "${serverTitle(origin.server)}" failed. ${advice}${detail}`,
    {
      server: origin.server,
      toolName: origin.toolName,
      category: code === 'CONFIG' ? 'user' : 'system',
      outcome,
      cause: error,
    },
  )
}

/** Failures that no model can do anything about: they are thrown whatever `onToolError` says. */
export function isForTheCaller(error: McpToolError): boolean {
  return FOR_THE_CALLER.has(error.code)
}

const FOR_THE_CALLER: ReadonlySet<McpToolErrorCode> = new Set<McpToolErrorCode>([
  'CONFIG',
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
  readonly advice: string
  readonly outcome?: ToolOutcome | undefined
}

/** Our client knows whether a call came to be sent: a handshake may fail in the same ways. */
function failureOf(code: CallFailureCode, error: Error): Failure {
  const failure = FAILURES[code]
  const isUnsent =
    error.name === 'McpClientError' && 'outcome' in error && error.outcome === 'not-executed'
  return isUnsent ? { advice: UNSENT[code] ?? failure.advice, outcome: 'not-executed' } : failure
}

/** In place of advice that leaves open whether the tool was executed. */
const UNSENT: Partial<Readonly<Record<CallFailureCode, string>>> = {
  SESSION_LOST:
    'The server ended the session, and another one could not be opened, so the tool was not executed. This usually passes: try again later.',
  TIMEOUT: 'The server did not answer in time, so the tool was not executed. Try again later.',
  HTTP_ERROR: 'The answer of the server cannot be used, so the tool was not executed',
}

const FAILURES: Readonly<Record<CallFailureCode, Failure>> = {
  SESSION_LOST: {
    advice:
      'The connection to the server ended during the call and could not be re-established. This usually passes: try again later.',
  },
  OUTCOME_UNKNOWN: {
    advice:
      'The call was sent, but no answer came: it may or may not have been executed. Check what happened before you repeat it.',
    outcome: 'unknown',
  },
  TIMEOUT: {
    advice:
      'No answer came in time: the call may or may not have been executed. Check what happened before you repeat it.',
    outcome: 'unknown',
  },
  UNREACHABLE: {
    advice: 'The server cannot be reached, so the tool was not executed. Try again later',
    outcome: 'not-executed',
  },
  UNAUTHORIZED: {
    advice:
      'The server refused the credentials, so the tool was not executed. Repeating the call will not help: tell the user that access has to be granted.',
    outcome: 'not-executed',
  },
  SERVER_ERROR: { advice: 'The server answered with an error' },
  HTTP_ERROR: {
    advice:
      'The answer cannot be used, so the call may or may not have been executed. Check what happened before you repeat it',
    outcome: 'unknown',
  },
  INVALID_OUTPUT: {
    advice: 'The tool was executed, but its result does not fit the schema that it declares',
    outcome: 'executed',
  },
  CONFIG: { advice: 'The server is not set up correctly', outcome: 'not-executed' },
  CLOSED: { advice: 'The client of this server was closed', outcome: 'unknown' },
}

/** Where the original message tells the model or the operator more than the advice does. */
const DETAILED: ReadonlySet<McpToolErrorCode> = new Set<McpToolErrorCode>([
  'UNREACHABLE',
  'SERVER_ERROR',
  'HTTP_ERROR',
  'INVALID_OUTPUT',
  'CONFIG',
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
    case 'CLOSED':
      return code
    case 'NOT_FOUND':
    case 'REENTRANT':
    case 'NO_RUN':
      return 'CONFIG'
    default:
      return 'HTTP_ERROR'
  }
}

function startOf(text: string): string {
  return text.length <= MAX_DETAIL ? text : `${text.slice(0, MAX_DETAIL)}…`
}
