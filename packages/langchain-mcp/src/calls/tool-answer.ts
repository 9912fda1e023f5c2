import { ToolMessage } from '@langchain/core/messages'
import type { ToolRunnableConfig } from '@langchain/core/tools'
import type { SessionReplaced } from '../catalogue/tool-source.ts'
import { McpToolError } from '../mcp-tool-error.ts'
import { serverTitle, type McpToolOrigin } from '../tool-origin.ts'
import type { McpToolOptions } from './mcp-tool-options.ts'
import { isForTheCaller } from './tool-failure.ts'
import { textOf, withNote, type McpArtifactEntry, type ToolOutput } from './tool-output.ts'
import type { Answer } from './tool-run.ts'

/** One call of a tool, until it has its answer. */
export interface OpenCall {
  /** The name that the model used. */
  readonly name: string
  readonly origin: McpToolOrigin
  readonly config: ToolRunnableConfig
  readonly options: McpToolOptions
  /** Texts that nobody may see. */
  readonly secrets: readonly string[]
  /** Set where the server lost the session meanwhile. */
  replaced: SessionReplaced | undefined
}

/** A failure, and what the model reads of it. */
export interface FailedCall {
  readonly failure: McpToolError
  readonly text: ToolOutput['content']
}

const SESSION_REPLACED =
  '[The server has lost the session that earlier calls used, and a new one was opened. What the server kept in it is gone: look before you rely on it.]'

export function answerFrom({ content, artifact }: ToolOutput, call: OpenCall): Answer {
  return [withNews(content, call), withSession(artifact, call)]
}

/** Thrown or told, as the options say; with a tool call at hand it is told as one, and a plain `invoke(args)` gets the text alone. */
export async function failedAnswer({ failure, text }: FailedCall, call: OpenCall): Promise<Answer> {
  const { name, config, options } = call
  const { onToolError = 'message' } = options
  if (onToolError === 'throw' || isForTheCaller(failure)) throw failure
  const told = typeof onToolError === 'function' ? await onToolError(failure) : undefined
  const content = withNews(told ?? text, call)
  const artifact = withSession(failure.artifact, call)
  if (config.toolCall === undefined) return [content, artifact]
  const { id = '' } = config.toolCall
  const status = 'error'
  return [new ToolMessage({ status, content, artifact, name, tool_call_id: id }), undefined]
}

/** The tool says itself that it failed (`isError`): the model reads its words. */
export function reportedFailure(
  { content, artifact }: ToolOutput,
  origin: McpToolOrigin,
): FailedCall {
  const isBlank = textOf(content).trim() === ''
  const text = isBlank && typeof content === 'string' ? 'Unknown error' : content
  return { failure: executed('TOOL_FAILED', { origin, reason: textOf(text), artifact }), text }
}

/** The tool was executed, and broke its own word (`outputSchema`). */
export function misfit(
  { content, artifact }: ToolOutput,
  {
    origin,
    complaints,
  }: { readonly origin: McpToolOrigin; readonly complaints: readonly string[] },
): McpToolError {
  const text = textOf(content)
  const shown = text === '' ? '' : ` It answered: ${text}`
  const reason = `The tool was executed, but its result does not fit the schema that it declares (${complaints.join('; ')}).${shown}`
  return executed('INVALID_OUTPUT', { origin, reason, artifact })
}

function executed(
  code: 'TOOL_FAILED' | 'INVALID_OUTPUT',
  {
    origin: { server, toolName },
    reason,
    artifact,
  }: { readonly origin: McpToolOrigin; readonly reason: string; readonly artifact: unknown },
): McpToolError {
  return new McpToolError(
    code,
    `MCP tool "${toolName}" of server "${serverTitle(server)}" failed. ${reason}`,
    { server, toolName, artifact, outcome: 'executed' },
  )
}

function withNews(
  content: ToolOutput['content'],
  { replaced, options }: OpenCall,
): ToolOutput['content'] {
  const isTold = replaced !== undefined && options.tellSessionReplaced === true
  return isTold ? withNote(content, SESSION_REPLACED) : content
}

/** The artifact says it whether or not the model is told. */
function withSession(artifact: unknown, { replaced }: OpenCall): unknown {
  if (replaced === undefined) return artifact
  const entry: McpArtifactEntry = { type: 'mcp_session', data: { ...replaced, replaced: true } }
  return Array.isArray(artifact) ? [...artifact, entry] : [entry]
}
