import {
  parseCallbackConfigArg,
  type CallbackManagerForToolRun,
} from '@langchain/core/callbacks/manager'
import type { ToolCall } from '@langchain/core/messages'
import { StructuredTool, type ToolRunnableConfig } from '@langchain/core/tools'
import type { JSONSchema } from '@langchain/core/utils/json_schema'
import { isRecord } from '@x/internal'
import { currentRun } from '@x/mcp-client'
import type { InputResolver } from '../arguments/argument-properties.ts'
import {
  withoutSecrets,
  withoutSecretsOf,
  type NamedResource,
} from '../arguments/resolve-property.ts'
import { isForTheCaller, McpToolError, toolErrorFrom } from '../base/errors.ts'
import { processWarnings, type ToolLog } from '../base/log.ts'
import type {
  McpServerLabel,
  McpToolOrigin,
  McpToolSource,
  ToolCallOptions,
  ToolDefinition,
  ToolResult,
} from '../base/tool-source.ts'
import type { ElicitationToInterrupt } from '../interrupts/elicitation-to-interrupt.ts'
import { failRun } from '../interrupts/langgraph.ts'
import { ToolCaller } from '../interrupts/live-call.ts'
import { runNewsOf } from '../interrupts/run-notifications.ts'
import type { SchemaProjection } from '../schema/schema-projection.ts'
import {
  intercepted,
  interceptorsFrom,
  isDirectAnswer,
  type ToolCallRequest,
  type ToolHooks,
  type ToolInterceptor,
} from './interceptors.ts'
import {
  answerFrom,
  failedAnswer,
  misfit,
  reportedFailure,
  runAsTool,
  type Answer,
  type FailedCall,
  type OpenCall,
} from './tool-answer.ts'
import { ToolBinding, type PreparedCall } from './tool-binding.ts'
import { toolOutputFrom, withNote, type ToolOutput, type ToolOutputOptions } from './tool-output.ts'

/**
 * What the model is told of a failure; `undefined` for the error's own message, which is written for it.
 * What it throws fails the call.
 */
export type ToolErrorHandler = (
  error: McpToolError,
) => string | undefined | Promise<string | undefined>

/** How the tools behave when they are called. */
export interface McpToolOptions extends ToolOutputOptions, ToolHooks {
  /**
   * What becomes of a failure:
   * - `'message'`: a `ToolMessage` with `status: 'error'` that tells the model what happened and what to do.
   * - `'throw'`: an `McpToolError`, which ends the run of `createAgent()`. In a graph with a `ToolNode` of your
   *   own, set `handleToolErrors: false` there.
   * - a function words the message, or throws. The `ToolNode` and middleware around the call handle what it
   *   throws.
   *
   * Mistakes of the developer (`CONFIG`, `NO_RUN`, `CLOSED`, `INVALID_STATIC_ARGUMENT`) end the run in any
   * case, and a function is not asked. Arguments that do not fit (`ToolInputParsingException`) and errors that
   * do not come from MCP are thrown. @default 'message'
   */
  readonly onToolError?: 'message' | 'throw' | ToolErrorHandler | undefined
  /** Limit of one call in milliseconds; a `timeout` of the run counts as well. @default the client's own */
  readonly timeoutMs?: number | undefined
  /**
   * Tells the model when the server lost the session that it used before: what it kept there is gone. The
   * artifact says so in any case. Live tools know (`createMcpTools`); of a client that was handed in, the
   * client's own event `sessionReplaced` tells. @default false
   */
  readonly tellSessionReplaced?: boolean | undefined
  /**
   * What of a tool's schema the model is shown: all that OpenAI and Anthropic take, what a given provider
   * takes, everything, or what a function makes of it. Arguments are checked against the whole schema in
   * any case; `tool.schemaNotes` says what is not shown. @default 'common'
   */
  readonly projection?: SchemaProjection | undefined
  /**
   * The agent's input, for `argumentProperties` that take values from it. Inside `runInSessionScope` it is
   * asked once per run. @default the state of the graph, as the node that calls the tool sees it
   */
  readonly input?: InputResolver | undefined
  /**
   * Lets the server ask a person, by an interrupt of the graph; its `handlers` belong to the client. `false`
   * for none. @default `elicitationToInterrupt()` where the clients are made here, unless `handlers` answer
   */
  readonly elicitation?: ElicitationToInterrupt | false | undefined
}

export interface McpToolFields {
  /** The name that the model sees. */
  readonly name: string
  /** As the server lists it, or as it was stored. */
  readonly definition: ToolDefinition
  readonly server: McpServerLabel
  /** What the tool is called on. */
  readonly source: McpToolSource
  /** @default {} */
  readonly options?: McpToolOptions | undefined
  /** Told when the definition is replaced, and of what is skipped or not shown. @default warnings of the Node process */
  readonly log?: ToolLog | undefined
  /** Whether the definition is stored, and compared with the server's before each call. @default false */
  readonly refreshBeforeCall?: boolean | undefined
  /** Places of the arguments that get their values from elsewhere than the model, by JSON path. @default {} */
  readonly argumentProperties?: Readonly<Record<string, unknown>> | undefined
  /** The agent's resources, which `argumentProperties` may name. @default [] */
  readonly resources?: readonly NamedResource[] | undefined
}

/**
 * One tool of an MCP server. Holds a handle (the client and the server's name for the tool), never a
 * session, so it stays valid when the client reconnects, recovers, or is disposed of and used again.
 *
 * It has two schemas. `definition.inputSchema` is the server's as it is, and what arguments are checked
 * against before the call; one that cannot be evaluated here leaves the check to the server. `schema` is
 * what the model is shown of it.
 */
export class McpTool extends StructuredTool {
  static override lc_name(): string {
    return 'McpTool'
  }

  override name: string
  override description: string
  /** The way back from the model's name: server, and name on the wire. */
  readonly origin: McpToolOrigin
  readonly #source: McpToolSource
  readonly #options: McpToolOptions
  readonly #interceptors: readonly ToolInterceptor[]
  readonly #binding: ToolBinding

  /** @throws {McpToolError} `INVALID_STATIC_ARGUMENT` for argument properties that cannot be read */
  constructor({ name, definition, server, source, options = {}, ...fields }: McpToolFields) {
    super({ responseFormat: 'content_and_artifact', metadata: metadataOf(definition, server) })
    this.name = name
    this.description = definition.description ?? ''
    this.origin = { server, toolName: definition.name }
    this.#source = source
    this.#options = options
    this.#interceptors = interceptorsFrom(options, source)
    const { projection = 'common', input, timeoutMs } = options
    const { log = processWarnings, refreshBeforeCall = false, argumentProperties = {} } = fields
    this.#binding = new ToolBinding({
      definition,
      origin: this.origin,
      source,
      log,
      projection,
      refreshBeforeCall,
      argumentProperties,
      input,
      resources: fields.resources,
      timeoutMs,
      onHealed: () => this.#healed(),
    })
  }

  /** What the model is shown: read whenever a model is told of its tools, so it is always the current one. */
  override get schema(): JSONSchema {
    const { schema, notes } = this.#binding.shown
    if (notes.length > 0) this.metadata = { ...this.metadata, schema_notes: notes }
    return schema
  }

  /** What of the schema the model is not shown, one line each. It is checked at the call all the same. */
  get schemaNotes(): readonly string[] {
    return this.#binding.shown.notes
  }

  /** As the server or the snapshot gave it, with title, annotations and `_meta`. */
  get definition(): ToolDefinition {
    return this.#binding.definition
  }

  /**
   * Core's own check writes into the schema and gives up on patterns and references that it cannot read.
   * So arguments are checked here, and core does the rest: callbacks, and the message around the answer.
   *
   * @deprecated As in core: use `invoke()`.
   */
  override async call(
    ...[input, givenConfig, tags]: Parameters<StructuredTool['call']>
  ): ReturnType<StructuredTool['call']> {
    const given: ToolRunnableConfig = parseCallbackConfigArg(givenConfig)
    const toolCall = given.toolCall ?? (isToolCall(input) ? input : undefined)
    const isArguments = toolCall === undefined || given.toolCall !== undefined
    const config: ToolRunnableConfig = { ...given, runName: given.runName ?? this.name }
    if (toolCall !== undefined) config.toolCall = toolCall
    config.signal?.throwIfAborted()
    const scopedRun = currentRun()
    try {
      const prepared = await this.#binding.prepare(isArguments ? input : toolCall.args, {
        name: this.name,
        config,
      })
      // Callbacks see these arguments; what nobody may see goes another way.
      const run = { args: prepared.shown, toolCallId: toolCall?.id, config, tags }
      return await runAsTool(this, run, (ownConfig) => this.#answer(prepared, ownConfig))
    } catch (error) {
      if (toolCall === undefined || config.signal?.aborted === true) throw error
      if (scopedRun?.signal.aborted === true) return await failRun(scopedRun.signal.reason, config)
      const { origin } = this
      const fatal = fatalFrom(error, { origin, secrets: [] })
      if (fatal !== undefined) return await failRun(fatal.error, config)
      const isThrown = this.#options.onToolError === 'throw' && isInToolNode(config)
      if (isThrown && McpToolError.is(error)) return await failRun(error, config)
      throw error
    }
  }

  protected override _call(
    args: Record<string, unknown>,
    _runManager?: CallbackManagerForToolRun,
    config?: ToolRunnableConfig,
  ): Promise<Answer> {
    return this.#answer({ kind: 'ready', args, shown: args, secrets: [] }, config)
  }

  async #answer(prepared: PreparedCall, config: ToolRunnableConfig = {}): Promise<Answer> {
    const { name, definition: tool, origin } = this
    const secrets = prepared.kind === 'ready' ? prepared.secrets : []
    const options = this.#options
    const call: OpenCall = { name, origin, config, options, secrets, replaced: undefined }
    let failed: FailedCall
    try {
      config.signal?.throwIfAborted()
      if (prepared.kind === 'refused') throw prepared.error
      const { args, shown } = prepared
      const request: ToolCallRequest = {
        name,
        server: origin.server,
        tool,
        args,
        headers: {},
        meta: {},
        config,
        withoutSecrets: (given) => (given === args ? shown : withoutSecrets(given, secrets)),
      }
      const answer = await intercepted(this.#interceptors, request, (final) =>
        this.#send(final, call),
      )
      if (isDirectAnswer(answer)) return [answer, undefined]
      const result = withoutSecrets(answer, secrets)
      const output = notedOutput(toolOutputFrom(result, this.#options), result.note)
      if (result.isError !== true) {
        this.#assertFits(result, output)
        return answerFrom(output, call)
      }
      failed = reportedFailure(output, origin)
    } catch (error) {
      if (config.signal?.aborted === true) throw error // whoever aborted wants no advice
      const told = toolErrorFrom(error, origin)
      if (told === undefined) throw error
      const failure = withoutSecretsOf(told, secrets)
      failed = { failure, text: failure.message }
    }
    return failedAnswer(failed, call)
  }

  /** The call on the wire, with what the server says and asks meanwhile. */
  async #send(
    { args, headers, meta, config }: ToolCallRequest,
    call: OpenCall,
  ): Promise<ToolResult> {
    const { origin } = this
    const { signal } = config
    const { elicitation } = this.#options
    const timeoutMs = this.#options.timeoutMs ?? timeoutOf(config)
    const caller = new ToolCaller(origin, config)
    const runNews = runNewsOf(config, { origin, source: this.#source, caller })
    const onProgress = runNews?.onProgress
    const send = (options: ToolCallOptions): Promise<ToolResult> =>
      this.#source.callTool(origin.toolName, args, {
        ...options,
        config,
        caller,
        ...(Object.keys(headers).length > 0 && { headers }),
        ...(Object.keys(meta).length > 0 && { meta }),
        onSessionReplaced: (replaced) => {
          call.replaced = replaced
        },
      })
    try {
      return elicitation === undefined || elicitation === false
        ? await send({ signal, timeoutMs, ...(onProgress !== undefined && { onProgress }) })
        : await elicitation.callTool({
            origin,
            config,
            caller,
            timeoutMs,
            onProgress,
            send: (options) =>
              send(options).catch((error: unknown) => {
                // It is sent in a task of the graph, which ends the run with this very error.
                throw fatalFrom(error, call)?.error ?? error
              }),
          })
    } finally {
      runNews?.end()
    }
  }

  #assertFits({ structuredContent }: ToolResult, output: ToolOutput): void {
    if (structuredContent === undefined) return
    const complaints = this.#binding.outputComplaints(structuredContent)
    if (complaints.length > 0) throw misfit(output, { origin: this.origin, complaints })
  }

  #healed(): void {
    const { definition } = this
    this.description = definition.description ?? ''
    const { schema_notes: _, ...metadata } = this.metadata ?? {}
    this.metadata = { ...metadata, ...metadataOf(definition, this.origin.server) }
  }
}

function notedOutput(output: ToolOutput, note: string | undefined): ToolOutput {
  return note === undefined ? output : { ...output, content: withNote(output.content, note) }
}

/** Core turns the `timeout` of a run into its signal and leaves the number here; without it the client would stop earlier, at its own default. */
function timeoutOf(config: ToolRunnableConfig): number | undefined {
  const timeoutMs: unknown = config.timeout ?? config.metadata?.['timeoutMs']
  return typeof timeoutMs === 'number' && timeoutMs > 0 ? timeoutMs : undefined
}

/** What ends the run of the agent instead of going to the model: a mistake of the developer, or an abort. */
function fatalFrom(
  error: unknown,
  { origin, secrets }: Pick<OpenCall, 'origin' | 'secrets'>,
): { readonly error: unknown } | undefined {
  const failure = toolErrorFrom(error, origin)
  if (failure === undefined || !isForTheCaller(failure)) return undefined
  const { code, cause } = failure
  const abort = code === 'NO_RUN' && cause instanceof Error ? cause.cause : undefined
  return { error: abort ?? withoutSecretsOf(failure, secrets) }
}

/** Whether the `ToolNode` of LangChain's `createAgent()` made the call: it turns what is thrown into a message. */
function isInToolNode(config: ToolRunnableConfig): boolean {
  return 'toolCallId' in config && config.toolCallId === config.toolCall?.id
}

function isToolCall(input: unknown): input is ToolCall {
  return isRecord(input) && input['type'] === 'tool_call'
}

/** What spans and user interfaces read; the snake_case names are the convention there. */
function metadataOf(definition: ToolDefinition, server: McpServerLabel): Record<string, unknown> {
  const { name: toolName, title, annotations } = definition
  const { folderPath, slug, name } = server
  const metadata: Record<string, unknown> = { tool_type: 'mcp', display_name: toolName }
  if (folderPath !== undefined) metadata['folder_path'] = folderPath
  if (slug !== undefined) metadata['slug'] = slug
  if (name !== undefined) metadata['server_name'] = name
  if (title !== undefined) metadata['title'] = title
  if (annotations !== undefined) metadata['annotations'] = annotations
  return metadata
}
