import { CallbackManager } from '@langchain/core/callbacks/manager'
import { isDirectToolOutput, ToolMessage } from '@langchain/core/messages'
import { patchConfig, pickRunnableConfigKeys } from '@langchain/core/runnables'
import { AsyncLocalStorageProviderSingleton } from '@langchain/core/singletons'
import type { StructuredTool, ToolReturnType, ToolRunnableConfig } from '@langchain/core/tools'
import { isForTheCaller, McpToolError } from '../base/errors.ts'
import { serverTitle, type McpToolOrigin, type SessionReplaced } from '../base/tool-source.ts'
import type { DirectAnswer } from './interceptors.ts'
import type { McpToolOptions } from './mcp-tool.ts'
import { textOf, withNote, type McpArtifactEntry, type ToolOutput } from './tool-output.ts'

/** One call of a tool, until its answer. */
export interface OpenCall {
  /** The name that the model used. */
  readonly name: string
  readonly origin: McpToolOrigin
  readonly config: ToolRunnableConfig
  readonly options: McpToolOptions
  /** Sensitive texts. */
  readonly secrets: readonly string[]
  /** Set if the server lost the session during the call. */
  replaced: SessionReplaced | undefined
}

/** A failure, and the text of it for the model. */
export interface FailedCall {
  readonly failure: McpToolError
  readonly text: ToolOutput['content']
}

const SESSION_REPLACED =
  '[The server has lost the session that earlier calls used, and a new one was opened. What the server kept in it is gone: look before you rely on it.]'

export function answerFrom({ content, artifact }: ToolOutput, call: OpenCall): Answer {
  return [withSessionNote(content, call), withSessionEntry(artifact, call)]
}

/**
 * Throws the failure, or returns a text for the model, as the options say. With a tool call it returns a
 * `ToolMessage`; `invoke(args)` returns only the text.
 */
export async function failedAnswer({ failure, text }: FailedCall, call: OpenCall): Promise<Answer> {
  const { name, config, options } = call
  const { onToolError = 'message' } = options
  if (onToolError === 'throw' || isForTheCaller(failure)) throw failure
  const custom = typeof onToolError === 'function' ? await onToolError(failure) : undefined
  const content = withSessionNote(custom ?? text, call)
  const artifact = withSessionEntry(failure.artifact, call)
  if (config.toolCall === undefined) return [content, artifact]
  const { id = '' } = config.toolCall
  const status = 'error'
  return [new ToolMessage({ status, content, artifact, name, tool_call_id: id }), undefined]
}

/** Returns the failure of a tool that reported an error (`isError`). The model sees the tool's own text. */
export function reportedFailure(
  { content, artifact }: ToolOutput,
  origin: McpToolOrigin,
): FailedCall {
  const isBlank = textOf(content).trim() === ''
  const text = isBlank && typeof content === 'string' ? 'Unknown error' : content
  return { failure: executed('TOOL_FAILED', { origin, reason: textOf(text), artifact }), text }
}

/** Returns the error for a result that does not fit the tool's own `outputSchema`. The tool was executed. */
export function invalidOutput(
  { content, artifact }: ToolOutput,
  { origin, errors }: { readonly origin: McpToolOrigin; readonly errors: readonly string[] },
): McpToolError {
  const text = textOf(content)
  const shown = text === '' ? '' : ` It answered: ${text}`
  const reason = `The tool was executed, but its result does not fit the schema that it declares (${errors.join('; ')}).${shown}`
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

function withSessionNote(
  content: ToolOutput['content'],
  { replaced, options }: OpenCall,
): ToolOutput['content'] {
  const isTold = replaced !== undefined && options.tellSessionReplaced === true
  return isTold ? withNote(content, SESSION_REPLACED) : content
}

/** Adds the replaced session to the artifact, also if the model does not see it. */
function withSessionEntry(artifact: unknown, { replaced }: OpenCall): unknown {
  if (replaced === undefined) return artifact
  const entry: McpArtifactEntry = { type: 'mcp_session', data: { ...replaced, replaced: true } }
  return Array.isArray(artifact) ? [...artifact, entry] : [entry]
}

/** Content and artifact, as core's `content_and_artifact` expects them. */
export type Answer = readonly [content: ToolOutput['content'] | DirectAnswer, artifact: unknown]

interface ToolRun {
  /** Arguments for callbacks. */
  readonly args: Record<string, unknown>
  readonly toolCallId: string | undefined
  /** A copy for this run, because its `runId` is removed. */
  readonly config: ToolRunnableConfig
  /** Tags of a caller that passes them beside the config. */
  readonly tags: string[] | undefined
}

/**
 * Runs the body of a tool as core does after it accepted the arguments: callbacks, the context for code
 * inside, and the message around the answer. Core's own method would validate the arguments again, with a
 * new validator for each call.
 *
 * Without callbacks and without own values in the config, it only runs the body.
 */
export async function runAsTool(
  tool: StructuredTool,
  { args, toolCallId, config, tags }: ToolRun,
  body: (config: ToolRunnableConfig) => Promise<Answer>,
): Promise<ToolReturnType<unknown, ToolRunnableConfig, unknown>> {
  const manager = CallbackManager.configure(
    config.callbacks,
    tool.callbacks,
    config.tags ?? tags,
    tool.tags,
    config.metadata,
    tool.metadata,
    { verbose: tool.verbose },
  )
  if (manager === undefined) {
    if (config.runId !== undefined) delete config.runId
    // Without `configurable` and store, code inside has nothing to read from the context.
    const { configurable, store }: ToolRunnableConfig & { store?: unknown } = config
    const isPlain = configurable === undefined && store === undefined
    const answer = isPlain ? body(config) : inContext(config, undefined, body)
    return outputFrom(tool, await answer, toolCallId)
  }
  const { runId, runName } = config
  delete config.runId
  const run = await manager.handleToolStart(
    tool.toJSON(),
    args,
    runId,
    undefined,
    undefined,
    undefined,
    runName,
    toolCallId,
  )
  let answer: Answer
  try {
    answer = await inContext(config, run.getChild(), body)
  } catch (error) {
    await run.handleToolError(error)
    throw error
  }
  const output = outputFrom(tool, answer, toolCallId)
  await run.handleToolEnd(output)
  return output
}

/** Sets the context for `getConfig()` of LangGraph, and for runnables that are invoked inside. */
function inContext(
  config: ToolRunnableConfig,
  callbacks: CallbackManager | undefined,
  body: (config: ToolRunnableConfig) => Promise<Answer>,
): Promise<Answer> {
  const inner = patchConfig(config, callbacks === undefined ? {} : { callbacks })
  return AsyncLocalStorageProviderSingleton.runWithConfig(pickRunnableConfigKeys(inner), () =>
    body(config),
  )
}

function outputFrom(
  { name, metadata }: StructuredTool,
  [content, artifact]: Answer,
  toolCallId: string | undefined,
): ToolReturnType<unknown, ToolRunnableConfig, unknown> {
  if (!toolCallId || isDirectToolOutput(content)) return content
  const isContent = typeof content === 'string' || Array.isArray(content)
  return new ToolMessage({
    status: 'success',
    content: isContent ? content : JSON.stringify(content),
    artifact,
    tool_call_id: toolCallId,
    name,
    ...(metadata !== undefined && { metadata }),
  })
}
