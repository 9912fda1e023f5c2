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
  withoutSecretsInError,
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
import { runNotificationsFor } from '../interrupts/run-notifications.ts'
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
  invalidOutput,
  reportedFailure,
  runAsTool,
  type Answer,
  type FailedCall,
  type OpenCall,
} from './tool-answer.ts'
import { ToolBinding, type PreparedCall } from './tool-binding.ts'
import { toolOutputFrom, withNote, type ToolOutput, type ToolOutputOptions } from './tool-output.ts'

/**
 * Returns the text that the model sees for a failure, or undefined for the error's own message, which is
 * written for models. If it throws, the call fails with that error.
 */
export type ToolErrorHandler = (
  error: McpToolError,
) => string | undefined | Promise<string | undefined>

/** Options of tool calls. */
export interface McpToolOptions extends ToolOutputOptions, ToolHooks {
  /**
   * Handling of failures:
   * - - `'message'`: a `ToolMessage` with `status: 'error'`, which tells the model what happened and what to
   *   do.
   * - - `'throw'`: an `McpToolError`, which ends the run of `createAgent()`. In a graph with your own
   *   `ToolNode`, set its `handleToolErrors: false`.
   * - - a function returns the text of the message, or throws. The `ToolNode` and middleware handle the
   *   thrown error.
   *
   * Mistakes of the developer (`CONFIG`, `NO_RUN`, `CLOSED`, `INVALID_STATIC_ARGUMENT`) always end the run,
   * without calling the function. Invalid arguments (`ToolInputParsingException`) and errors that are not
   * from MCP are thrown. @default 'message'
   */
  readonly onToolError?: 'message' | 'throw' | ToolErrorHandler | undefined
  /** Limit of one call in milliseconds. A `timeout` of the run applies too. @default the client's own */
  readonly timeoutMs?: number | undefined
  /**
   * Adds a note for the model after the server lost the session of earlier calls. The artifact always
   * contains it. Only for tools of `createMcpTools()`; a client of your own emits `sessionReplaced`.
   * @default false
   */
  readonly tellSessionReplaced?: boolean | undefined
  /**
   * The part of a tool's schema that the model sees: for OpenAI and Anthropic, for one provider, everything,
   * or the result of a function. Arguments are always checked against the whole schema. `tool.schemaNotes`
   * lists the hidden parts. @default 'common'
   */
  readonly projection?: SchemaProjection | undefined
  /**
   * Returns the agent's input, for `argumentProperties` that use it. Called once per run inside
   * `runInSessionScope`. @default the state of the graph, as the node that calls the tool sees it
   */
  readonly input?: InputResolver | undefined
  /**
   * Asks a person by an interrupt of the graph when a server asks. Pass its `handlers` to the client.
   * `false` disables it. @default `elicitationToInterrupt()` for clients that are created here, unless
   * `handlers` answer
   */
  readonly elicitation?: ElicitationToInterrupt | false | undefined
}

export interface McpToolFields {
  /** The name that the model sees. */
  readonly name: string
  /** From the server's list or an agent definition. */
  readonly definition: ToolDefinition
  readonly server: McpServerLabel
  /** The client that calls the tool. */
  readonly source: McpToolSource
  /** @default {} */
  readonly options?: McpToolOptions | undefined
  /**
   * Receives entries about replaced definitions, skipped arguments and hidden parts of schemas. @default
   * warnings of the Node process
   */
  readonly log?: ToolLog | undefined
  /** Compares the definition with the server's before each call, because it was stored. @default false */
  readonly refreshBeforeCall?: boolean | undefined
  /** Arguments that the model does not set, by JSON path. @default {} */
  readonly argumentProperties?: Readonly<Record<string, unknown>> | undefined
  /** Resources of the agent, which `argumentProperties` can name. @default [] */
  readonly resources?: readonly NamedResource[] | undefined
}

/**
 * One tool of an MCP server. It holds the client and the tool's name on the server, never a session. So it
 * stays valid when the client reconnects, recovers, or is disposed of and used again.
 *
 * It has two schemas. `definition.inputSchema` is the server's own; arguments are checked against it before
 * the call, unless it cannot be evaluated here. `schema` is the part that the model sees.
 */
export class McpTool extends StructuredTool {
  static override lc_name(): string {
    return 'McpTool'
  }

  override name: string
  override description: string
  /** The server, and the tool's name there. */
  readonly origin: McpToolOrigin
  readonly #source: McpToolSource
  readonly #options: McpToolOptions
  readonly #interceptors: readonly ToolInterceptor[]
  readonly #binding: ToolBinding

  /** @throws {McpToolError} `INVALID_STATIC_ARGUMENT` for argument properties that cannot be parsed */
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

  /** The schema that the model sees. It is computed at each access, so it is always current. */
  override get schema(): JSONSchema {
    const { schema, notes } = this.#binding.shown
    if (notes.length > 0) this.metadata = { ...this.metadata, schema_notes: notes }
    return schema
  }

  /** Parts of the schema that the model does not see, one line each. They are checked at the call. */
  get schemaNotes(): readonly string[] {
    return this.#binding.shown.notes
  }

  /** From the server or the agent definition, with title, annotations and `_meta`. */
  get definition(): ToolDefinition {
    return this.#binding.definition
  }

  /**
   * Checks the arguments, and does the rest as core does: callbacks, and the message around the answer.
   * Core's own check writes into the schema, and fails for patterns and references that it cannot read.
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
      // Callbacks receive these arguments, which contain no sensitive values.
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
    const { name, origin } = this
    const tool = this.#binding.definition
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
      const output = outputWithNote(toolOutputFrom(result, this.#options), result.note)
      if (result.isError !== true) {
        this.#assertFits(result, output)
        return answerFrom(output, call)
      }
      failed = reportedFailure(output, origin)
    } catch (error) {
      if (config.signal?.aborted === true) throw error // an aborted run needs no advice
      const known = toolErrorFrom(error, origin)
      if (known === undefined) throw error
      const failure = withoutSecretsInError(known, secrets)
      failed = { failure, text: failure.message }
    }
    return failedAnswer(failed, call)
  }

  /** Sends the call, and handles notifications and questions of the server. */
  async #send(
    { args, headers, meta, config }: ToolCallRequest,
    call: OpenCall,
  ): Promise<ToolResult> {
    const { origin } = this
    const { signal } = config
    const { elicitation } = this.#options
    const timeoutMs = this.#options.timeoutMs ?? timeoutOf(config)
    const caller = new ToolCaller(origin, config)
    const notifications = runNotificationsFor(config, { origin, source: this.#source, caller })
    const onProgress = notifications?.onProgress
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
                // This runs in a task of the graph, which ends the run with exactly this error.
                throw fatalFrom(error, call)?.error ?? error
              }),
          })
    } finally {
      notifications?.end()
    }
  }

  #assertFits({ structuredContent }: ToolResult, output: ToolOutput): void {
    if (structuredContent === undefined) return
    const errors = this.#binding.outputErrors(structuredContent)
    if (errors.length > 0) throw invalidOutput(output, { origin: this.origin, errors })
  }

  #healed(): void {
    const { definition } = this
    this.description = definition.description ?? ''
    const { schema_notes: _, ...metadata } = this.metadata ?? {}
    this.metadata = { ...metadata, ...metadataOf(definition, this.origin.server) }
  }
}

function outputWithNote(output: ToolOutput, note: string | undefined): ToolOutput {
  return note === undefined ? output : { ...output, content: withNote(output.content, note) }
}

/**
 * Core turns the `timeout` of a run into its signal, and keeps the number here. Without it the client would
 * stop earlier, at its own default.
 */
function timeoutOf(config: ToolRunnableConfig): number | undefined {
  const timeoutMs: unknown = config.timeout ?? config.metadata?.['timeoutMs']
  return typeof timeoutMs === 'number' && timeoutMs > 0 ? timeoutMs : undefined
}

/** Returns the error that ends the run of the agent: a mistake of the developer, or an abort. */
function fatalFrom(
  error: unknown,
  { origin, secrets }: Pick<OpenCall, 'origin' | 'secrets'>,
): { readonly error: unknown } | undefined {
  const failure = toolErrorFrom(error, origin)
  if (failure === undefined || !isForTheCaller(failure)) return undefined
  const { code, cause } = failure
  const abort = code === 'NO_RUN' && cause instanceof Error ? cause.cause : undefined
  return { error: abort ?? withoutSecretsInError(failure, secrets) }
}

/**
 * Returns true if the `ToolNode` of LangChain's `createAgent()` made the call: it turns thrown errors into
 * messages.
 */
function isInToolNode(config: ToolRunnableConfig): boolean {
  return 'toolCallId' in config && config.toolCallId === config.toolCall?.id
}

function isToolCall(input: unknown): input is ToolCall {
  return isRecord(input) && input['type'] === 'tool_call'
}

/** Metadata for spans and user interfaces. snake_case names are the convention there. */
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
