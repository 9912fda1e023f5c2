import type { ToolResult } from '../catalogue/tool-source.ts'
import { McpToolError } from '../mcp-tool-error.ts'
import { serverTitle, type McpToolOrigin } from '../tool-origin.ts'
import type { ToolCaller } from './live-call.ts'

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
export function crowded(origin: McpToolOrigin): McpToolError {
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
