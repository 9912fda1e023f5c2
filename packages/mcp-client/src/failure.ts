import { McpError } from '@modelcontextprotocol/sdk/types.js'
import { TransportError } from '@x/mcp-transport'
import { DeadlineError } from './deadline.ts'
import { McpClientError } from './mcp-client-error.ts'

export interface FailureContext {
  readonly server: string
  /** For messages: `tool "pay"`, `tools/list`. */
  readonly label: string
  readonly tool?: string | undefined
  /** Of the operation: says whether it was this side that ended it. */
  readonly signal: AbortSignal
}

/** The transport's own error inside what the SDK rejected with, if it was the transport that failed. */
export function failureFrom(error: unknown): TransportError | undefined {
  if (TransportError.is(error)) return error
  return error instanceof McpError && TransportError.is(error.data) ? error.data : undefined
}

/**
 * What the caller of an operation gets. Where the caller gave up, the reason of that, untouched; where the
 * server answered with an error, the SDK's `McpError`, untouched; else a `McpClientError`.
 */
export function thrownFrom(error: unknown, context: FailureContext): unknown {
  const { server, label, tool, signal } = context
  if (signal.aborted) {
    const reason: unknown = signal.reason
    if (!(reason instanceof DeadlineError)) return reason
    const message = `${label} of MCP server "${server}" gave ${lowerFirst(reason.message)}`
    return new McpClientError('TIMEOUT', message, { server, tool, cause: error })
  }
  const failure = failureFrom(error)
  // An HTTP error status with a JSON-RPC error is an answer, too.
  if (failure?.serverError !== undefined && failure.code === 'REJECTED') return error
  if (failure === undefined) return error
  // A refusal that proves nothing: the tool may have run.
  const isUnknown = tool !== undefined && failure.code === 'SESSION_LOST' && !failure.certain
  const code = isUnknown ? 'OUTCOME_UNKNOWN' : failure.code
  return new McpClientError(code, `${label} of MCP server "${server}": ${failure.message}`, {
    server,
    tool,
    cause: failure,
  })
}

function lowerFirst(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1)
}
