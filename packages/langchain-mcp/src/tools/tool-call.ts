import { ToolMessage } from '@langchain/core/messages'
import type { ToolRunnableConfig } from '@langchain/core/tools'
import { isRecord, untilAborted, withoutErrorLink } from '@x/internal'
import { withoutSecrets, withoutSecretsInError } from '../secrets.ts'
import { failedText, isForTheCaller, McpToolError, toolErrorFrom } from '../errors.ts'
import { uiOf } from '../mcp-apps.ts'
import { serverTitle, type ToolResult } from '../tool-source.ts'
import { answeredByClient } from '../graph/elicitation-to-interrupt.ts'
import { graphPlaceOf, idempotencyKeyOf } from '../graph/graph-place.ts'
import { ToolCaller } from '../graph/live-call.ts'
import { runNotificationsFor } from '../graph/run-notifications.ts'
import {
  intercepted,
  isDirectAnswer,
  type DirectAnswer,
  type ToolCallAnswer,
  type ToolCallRequest,
} from './interceptors.ts'
import type { PreparedCall, ToolBinding } from './tool-binding.ts'
import {
  textOf,
  toolOutputFrom,
  withNote,
  type McpArtifactEntry,
  type McpToolUi,
  type ToolOutput,
} from './tool-output.ts'

/** Content and artifact, as core's `content_and_artifact` expects them. */
export type Answer = readonly [content: ToolOutput['content'] | DirectAnswer, artifact: unknown]

/** One call of a tool, until its answer. */
export class ToolCall extends ToolCaller {
  readonly #binding: ToolBinding
  /** The name that the model used. */
  readonly #name: string
  #secrets: readonly string[] = []
  /** Note for the model: the result does not fit the output schema of the tool. */
  #problem: string | undefined

  constructor(binding: ToolBinding, name: string, config: ToolRunnableConfig) {
    super(binding.origin, config)
    this.#binding = binding
    this.#name = name
  }

  /** Makes the call. A failure becomes an answer for the model, or is thrown, as `onToolError` says. */
  async answer(input: unknown): Promise<Answer> {
    const { signal } = this.config
    const { origin, interceptors } = this.#binding
    let failure: McpToolError
    let text: ToolOutput['content'] | undefined
    try {
      signal?.throwIfAborted()
      const prepared = await this.#binding.prepare(input, this.#name, this.config)
      this.#secrets = prepared.secrets
      signal?.throwIfAborted()
      const { args } = prepared
      const answer = await (interceptors.length === 0
        ? this.send({ args, headers: {}, meta: {}, timeoutMs: this.#timeoutMs })
        : this.#intercepted(prepared))
      if (isDirectAnswer(answer)) return [answer, undefined]
      const result = withoutSecrets(answer, this.#secrets)
      const { content: shown, artifact } = toolOutputFrom(result, {
        ...this.#binding.options,
        ui: this.#ui,
      })
      const content = this.#withProblem(shown)
      if (result.isError !== true) {
        return [content, this.#withSessionEntry(artifact)]
      }
      // The model sees the tool's own text.
      const isBlank = textOf(content).trim() === ''
      text = isBlank && typeof content === 'string' ? 'Unknown error' : content
      const about = { ...origin, artifact, outcome: 'executed' } as const
      failure = new McpToolError('TOOL_FAILED', `${failedText(origin)}. ${textOf(text)}`, about)
    } catch (error) {
      if (signal?.aborted === true) throw error // an aborted run needs no advice
      const known = toolErrorFrom(error, origin)
      if (known === undefined) throw error
      failure = withoutSecretsInError(known, this.#secrets)
    }
    return this.#failed(failure, text ?? failure.message)
  }

  get #ui(): McpToolUi | undefined {
    const { definition, origin } = this.#binding
    const { resourceUri, ...ui } = uiOf(definition)
    if (resourceUri === undefined) return undefined
    const { server, toolName: tool } = origin
    return { ...ui, resourceUri, server: server.name ?? serverTitle(server), tool }
  }

  /** Limit of the call, unless an interceptor gives another one. Undefined for that of the client. */
  get #timeoutMs(): number | undefined {
    // Core turns the `timeout` of a run into its signal, and keeps the number in the metadata. Without it the
    // client would stop earlier, at its own default.
    const { timeout, metadata } = this.config
    const ofRun: unknown = timeout ?? metadata?.['timeoutMs']
    const runMs = typeof ofRun === 'number' && ofRun > 0 ? ofRun : undefined
    return this.#binding.options.timeoutMs ?? runMs
  }

  /** Calls the interceptors, the first one outermost. The last one sends the call. */
  #intercepted({ args, redacted, secrets }: PreparedCall): Promise<ToolCallAnswer> {
    const { interceptors, origin, definition } = this.#binding
    return intercepted(interceptors, this, {
      name: this.#name,
      server: origin.server,
      tool: definition,
      args,
      headers: {},
      meta: {},
      timeoutMs: this.#timeoutMs,
      config: this.config,
      withoutSecrets: (given) => (given === args ? redacted : withoutSecrets(given, secrets)),
    })
  }

  /** Sends the call, and handles notifications and questions of the server. */
  async send({
    args,
    headers,
    meta,
    timeoutMs,
  }: Pick<ToolCallRequest, 'args' | 'headers' | 'meta' | 'timeoutMs'>): Promise<ToolResult> {
    const { origin, source, options: toolOptions } = this.#binding
    const { config } = this
    const { callbacks, toolCall } = config
    const isWatched = callbacks !== undefined || 'writer' in config
    const notifications = isWatched ? runNotificationsFor(config, source, this) : undefined
    // Only a call that a model made has a key, and a place in a graph.
    const isOfModel = toolCall?.id !== undefined
    const options = {
      signal: config.signal,
      timeoutMs,
      config,
      caller: this,
      headers,
      meta,
      onProgress: notifications?.onProgress,
      idempotencyKey: isOfModel ? idempotencyKeyOf(config) : undefined,
    }
    // An interceptor may send the call more than once.
    this.unanswered = undefined
    this.#problem = undefined
    try {
      const place = isOfModel ? graphPlaceOf(config) : undefined
      if (place === undefined) return await source.callTool(origin.toolName, args, options)
      const secrets = this.#secrets
      const interruptsForTasks = toolOptions.taskMode === 'interrupt'
      const call = { origin, source, args, options, secrets, interruptsForTasks }
      return await (toolOptions.elicitation || answeredByClient).callTool(call, place)
    } catch (error) {
      if (config.signal?.aborted === true) throw error
      const failure = toolErrorFrom(error, origin)
      // The error of the server may only repeat that its question got no answer.
      if (failure?.outcome !== 'executed') throw this.unanswered ?? error
      const result = executedResult(failure)
      // The artifact of the thrown error has the result.
      if (result === undefined || toolOptions.onToolError === 'throw') throw error
      const { message } = failure.cause instanceof Error ? failure.cause : failure
      this.#problem = withoutErrorLink(message)
      return result
    } finally {
      notifications?.end()
    }
  }

  /**
   * Throws the failure, or returns a text for the model, as the options say. With a tool call it returns a
   * `ToolMessage`; `invoke(args)` returns only the text.
   */
  async #failed(failure: McpToolError, text: ToolOutput['content']): Promise<Answer> {
    const { onToolError = 'message' } = this.#binding.options
    if (onToolError === 'throw' || isForTheCaller(failure)) throw failure
    const custom =
      typeof onToolError === 'function'
        ? await untilAborted(Promise.resolve(onToolError(failure)), this.config.signal)
        : undefined
    const content = custom ?? text
    const artifact = this.#withSessionEntry(failure.artifact)
    const { toolCall } = this.config
    if (toolCall === undefined) return [content, artifact]
    const about = { status: 'error', name: this.#name, tool_call_id: toolCall.id ?? '' } as const
    return [new ToolMessage({ ...about, content, artifact }), undefined]
  }

  #withProblem(content: ToolOutput['content']): ToolOutput['content'] {
    const problem = this.#problem
    return problem === undefined
      ? content
      : withNote(content, withoutSecrets(`[${problem}]`, this.#secrets))
  }

  /** Adds the replaced session to the artifact. */
  #withSessionEntry(artifact: unknown): unknown {
    const { replaced } = this
    if (replaced === undefined) return artifact
    const entry: McpArtifactEntry = { type: 'mcp_session', data: { ...replaced, replaced: true } }
    return Array.isArray(artifact) ? [...artifact, entry] : [entry]
  }
}

/**
 * Returns the result of a tool that was executed, although it does not fit a schema: the model can use what the server
 * sent, and would repeat a call that seems to have failed.
 */
function executedResult({ artifact }: McpToolError): ToolResult | undefined {
  if (!isRecord(artifact)) return undefined
  const { content, structuredContent, isError, _meta } = artifact
  if (!Array.isArray(content) && structuredContent === undefined) return undefined
  return {
    content: Array.isArray(content) ? content : [],
    structuredContent,
    isError: isError === true,
    ...(isRecord(_meta) && { _meta }),
  }
}
