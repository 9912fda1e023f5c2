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

/** Content and artifact, in the form of core's `content_and_artifact`. */
export type Answer = readonly [content: ToolOutput['content'] | DirectAnswer, artifact: unknown]

interface ToolRun {
  /** What callbacks are told. */
  readonly args: Record<string, unknown>
  readonly toolCallId: string | undefined
  /** Belongs to this run alone: its `runId` is used up. */
  readonly config: ToolRunnableConfig
  /** Of a caller that gives them beside the config. */
  readonly tags: string[] | undefined
}

/**
 * What core does around the body of a tool once its arguments are accepted: callbacks, the context that code
 * inside reads, and the message around the answer. Core's own would check the arguments another time, by a
 * validator that it makes for each call.
 *
 * Where nobody listens, and the config says nothing that the context around does not say, the body is all
 * there is.
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
    const answer = saysNothing(config) ? body(config) : inContext(config, undefined, body)
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

/** Runs are kept apart by what callers configure; without it, code inside has nothing to read. */
function saysNothing({ configurable, store }: ToolRunnableConfig & { store?: unknown }): boolean {
  return configurable === undefined && store === undefined
}

/** `getConfig()` of LangGraph, and every runnable that is invoked inside, belong to this run. */
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
