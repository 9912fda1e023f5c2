import {
  parseCallbackConfigArg,
  type CallbackManagerForToolRun,
} from '@langchain/core/callbacks/manager'
import { ToolMessage, type ToolCall } from '@langchain/core/messages'
import { StructuredTool, type ToolRunnableConfig } from '@langchain/core/tools'
import type { JSONSchema } from '@langchain/core/utils/json_schema'
import { withoutSecrets, withoutSecretsOf } from '../argument-properties/hide-secrets.ts'
import type { NamedResource } from '../argument-properties/resolve-property.ts'
import type { InputResolver } from '../argument-properties/run-input.ts'
import type { ElicitationToInterrupt } from '../interrupts/elicitation-to-interrupt.ts'
import { runNewsOf } from '../interrupts/run-news.ts'
import { isRecord } from '../is-record.ts'
import { McpToolError } from '../mcp-tool-error.ts'
import type { SchemaProjection } from '../schema/schema-projection.ts'
import { ToolBinding, type PreparedCall } from './tool-binding.ts'
import { isForTheCaller, toolErrorFrom } from './tool-failure.ts'
import { interceptorsFrom, type ToolHooks } from './tool-hooks.ts'
import {
  intercepted,
  isDirectAnswer,
  type ToolCallRequest,
  type ToolInterceptor,
} from './tool-interceptor.ts'
import { processWarnings, type ToolLog } from '../tool-log.ts'
import { serverTitle, type McpServerLabel, type McpToolOrigin } from '../tool-origin.ts'
import {
  textOf,
  toolOutputFrom,
  withNote,
  type McpArtifactEntry,
  type ToolOutput,
  type ToolOutputOptions,
} from './tool-output.ts'
import { runAsTool, type Answer } from './tool-run.ts'
import type {
  McpToolSource,
  SessionReplaced,
  ToolCallOptions,
  ToolDefinition,
  ToolResult,
} from '../catalogue/tool-source.ts'

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
   * What a failure becomes: a message that tells the model what happened and what to do (a `ToolMessage`
   * with `status: 'error'`), or a thrown `McpToolError`; a function decides by itself. Failures that no model can repair (`CONFIG`,
   * `CLOSED`) and errors that do not come from MCP are thrown in any case. @default 'message'
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
  readonly definition: ToolDefinition
  readonly server: McpServerLabel
  readonly source: McpToolSource
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

/** What is heard of the session while a call is under way. */
interface CallNews {
  replaced?: SessionReplaced
}

const SESSION_REPLACED =
  '[The server has lost the session that earlier calls used, and a new one was opened. What the server kept in it is gone: look before you rely on it.]'

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
    const prepared = await this.#binding.prepare(isArguments ? input : toolCall.args, {
      name: this.name,
      config,
    })
    // Callbacks see these arguments; what nobody may see goes another way.
    const run = { args: prepared.shown, toolCallId: toolCall?.id, config, tags }
    return runAsTool(this, run, (ownConfig) => this.#answer(prepared, ownConfig))
  }

  protected override _call(
    args: Record<string, unknown>,
    _runManager?: CallbackManagerForToolRun,
    config?: ToolRunnableConfig,
  ): Promise<Answer> {
    return this.#answer({ kind: 'ready', args, shown: args, secrets: [] }, config)
  }

  async #answer(prepared: PreparedCall, config: ToolRunnableConfig = {}): Promise<Answer> {
    const news: CallNews = {}
    const secrets = prepared.kind === 'ready' ? prepared.secrets : []
    try {
      config.signal?.throwIfAborted()
      if (prepared.kind === 'refused') throw prepared.error
      const { args, shown } = prepared
      const { name, definition: tool, origin } = this
      const { server } = origin
      const request: ToolCallRequest = {
        name,
        server,
        tool,
        args,
        headers: {},
        meta: {},
        config,
        withoutSecrets: (given) => (given === args ? shown : withoutSecrets(given, secrets)),
      }
      const answer = await intercepted(this.#interceptors, request, (final) =>
        this.#send(final, news),
      )
      return isDirectAnswer(answer)
        ? [answer, undefined]
        : await this.#answerFrom(withoutSecrets(answer, secrets), { config, news })
    } catch (error) {
      if (config.signal?.aborted === true) throw error // whoever aborted wants no advice
      const told = toolErrorFrom(error, this.origin)
      if (told === undefined) throw error
      const failure = withoutSecretsOf(told, secrets)
      return this.#failed(failure, failure.message, { config, news })
    }
  }

  /** The call on the wire, with what the server says and asks meanwhile. */
  async #send(
    { args, headers, meta, config }: ToolCallRequest,
    news: CallNews,
  ): Promise<ToolResult> {
    const { origin } = this
    const { signal } = config
    const { elicitation } = this.#options
    const timeoutMs = this.#options.timeoutMs ?? timeoutOf(config)
    const runNews = runNewsOf(config, { origin, source: this.#source })
    const onProgress = runNews?.onProgress
    const send = (options: ToolCallOptions): Promise<ToolResult> =>
      this.#source.callTool(origin.toolName, args, {
        ...options,
        config,
        ...(Object.keys(headers).length > 0 && { headers }),
        ...(Object.keys(meta).length > 0 && { meta }),
        onSessionReplaced: (replaced) => {
          news.replaced = replaced
        },
      })
    try {
      return elicitation === undefined || elicitation === false
        ? await send({ signal, timeoutMs, ...(onProgress !== undefined && { onProgress }) })
        : await elicitation.callTool({ origin, config, timeoutMs, onProgress, send })
    } finally {
      runNews?.end()
    }
  }

  async #answerFrom(
    result: ToolResult,
    { config, news }: { readonly config: ToolRunnableConfig; readonly news: CallNews },
  ): Promise<Answer> {
    const { content, artifact } = toolOutputFrom(result, this.#options)
    if (result.isError === true) {
      const isBlank = textOf(content).trim() === ''
      const reason = isBlank && typeof content === 'string' ? 'Unknown error' : content
      const failure = this.#error('TOOL_FAILED', textOf(reason), artifact)
      return this.#failed(failure, reason, { config, news })
    }
    const complaints =
      result.structuredContent === undefined
        ? []
        : this.#binding.outputComplaints(result.structuredContent)
    if (complaints.length > 0) {
      const text = textOf(content)
      const shown = text === '' ? '' : ` It answered: ${text}`
      throw this.#error(
        'INVALID_OUTPUT',
        `The tool was executed, but its result does not fit the schema that it declares (${complaints.join('; ')}).${shown}`,
        artifact,
      )
    }
    return [this.#withNews(content, news), withSession(artifact, news)]
  }

  /** Thrown or told, as the options say; with a tool call at hand it is told as one, and a plain `invoke(args)` gets the text alone. */
  async #failed(
    failure: McpToolError,
    text: ToolOutput['content'],
    { config, news }: { readonly config: ToolRunnableConfig; readonly news: CallNews },
  ): Promise<Answer> {
    const { onToolError = 'message' } = this.#options
    if (onToolError === 'throw' || isForTheCaller(failure)) throw failure
    const told = typeof onToolError === 'function' ? await onToolError(failure) : undefined
    const content = this.#withNews(told ?? text, news)
    const artifact = withSession(failure.artifact, news)
    const { name } = this
    if (config.toolCall === undefined) return [content, artifact]
    const { id = '' } = config.toolCall
    const status = 'error'
    return [new ToolMessage({ status, content, artifact, name, tool_call_id: id }), undefined]
  }

  #withNews(content: ToolOutput['content'], { replaced }: CallNews): ToolOutput['content'] {
    const isTold = replaced !== undefined && this.#options.tellSessionReplaced === true
    return isTold ? withNote(content, SESSION_REPLACED) : content
  }

  #healed(): void {
    const { definition } = this
    this.description = definition.description ?? ''
    const { schema_notes: _, ...metadata } = this.metadata ?? {}
    this.metadata = { ...metadata, ...metadataOf(definition, this.origin.server) }
  }

  #error(code: 'TOOL_FAILED' | 'INVALID_OUTPUT', reason: string, artifact: unknown): McpToolError {
    const { server, toolName } = this.origin
    return new McpToolError(
      code,
      `MCP tool "${toolName}" of server "${serverTitle(server)}" failed. ${reason}`,
      { server, toolName, artifact, outcome: 'executed' },
    )
  }
}

/** The artifact says it whether or not the model is told. */
function withSession(artifact: unknown, { replaced }: CallNews): unknown {
  if (replaced === undefined) return artifact
  const entry: McpArtifactEntry = { type: 'mcp_session', data: { ...replaced, replaced: true } }
  return Array.isArray(artifact) ? [...artifact, entry] : [entry]
}

/** Core turns the `timeout` of a run into its signal and leaves the number here; without it the client would stop earlier, at its own default. */
function timeoutOf(config: ToolRunnableConfig): number | undefined {
  const timeoutMs: unknown = config.timeout ?? config.metadata?.['timeoutMs']
  return typeof timeoutMs === 'number' && timeoutMs > 0 ? timeoutMs : undefined
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
