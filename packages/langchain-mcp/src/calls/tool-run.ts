import { CallbackManager } from '@langchain/core/callbacks/manager'
import { isDirectToolOutput, ToolMessage } from '@langchain/core/messages'
import { patchConfig, pickRunnableConfigKeys } from '@langchain/core/runnables'
import { AsyncLocalStorageProviderSingleton } from '@langchain/core/singletons'
import type { StructuredTool, ToolReturnType, ToolRunnableConfig } from '@langchain/core/tools'
import type { ToolOutput } from './tool-output.ts'
import type { DirectAnswer } from './tool-interceptor.ts'

/** Content and artifact, in the form of core's `content_and_artifact`. */
export type Answer = readonly [content: ToolOutput['content'] | DirectAnswer, artifact: unknown]

export interface ToolRun {
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
