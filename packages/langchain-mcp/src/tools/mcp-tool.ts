import type { CallbackManagerForToolRun } from '@langchain/core/callbacks/manager'
import type { ToolCall as ModelToolCall } from '@langchain/core/messages'
import {
  ensureConfig,
  mergeConfigs,
  patchConfig,
  pickRunnableConfigKeys,
  type RunnableConfig,
} from '@langchain/core/runnables'
import { AsyncLocalStorageProviderSingleton } from '@langchain/core/singletons'
import { StructuredTool, type ToolReturnType, type ToolRunnableConfig } from '@langchain/core/tools'
import type { JSONSchema } from '@langchain/core/utils/json_schema'
import { definedFields, isRecord, legible } from '@x/internal'
import { currentRun } from '@x/mcp-client'
import { McpToolError } from '../errors.ts'
import type { ToolLog } from '../log.ts'
import type {
  McpServerLabel,
  McpToolOrigin,
  McpToolSource,
  ToolDefinition,
} from '../tool-source.ts'
import { fatalFrom } from '../graph/call-outcome.ts'
import type { ElicitationToInterrupt } from '../graph/elicitation-to-interrupt.ts'
import { ambientConfig } from '../graph/call-context.ts'
import { failRun } from '../graph/graph-place.ts'
import type { SchemaProjection } from './schema-projection.ts'
import type { ToolHooks, ToolPins } from './interceptors.ts'
import { ToolBinding, type FixedArguments } from './tool-binding.ts'
import { ToolCall, type Answer } from './tool-call.ts'
import type { ToolOutputOptions } from './tool-output.ts'

/**
 * Returns the text that the model sees for a failure, or undefined for the error's own message, which is
 * written for models. If it throws, the call fails with that error.
 */
export type ToolErrorHandler = (
  error: McpToolError,
) => string | undefined | Promise<string | undefined>

/** Returns the agent's input, for arguments that come from it. */
export type InputResolver = (config: RunnableConfig) => unknown

/** Options of tool calls. */
export interface McpToolOptions extends ToolOutputOptions, ToolHooks {
  /**
   * Handling of failures:
   * - `'message'`: a `ToolMessage` with `status: 'error'`, which tells the model what happened and what to do.
   * - `'throw'`: an `McpToolError`, which ends the run of `createAgent()`. In a graph with your own `ToolNode`,
   *   set its `handleToolErrors: false`. Also for a result that breaks its schema, which is the `artifact` of the error;
   *   otherwise the model reads such a result, with a note, and the function is not called.
   * - a function returns the text of the message, or throws. The `ToolNode` and middleware handle the thrown error.
   *
   * Mistakes of the developer (`CONFIG`, `NO_RUN`, `CLOSED`, `INVALID_STATIC_ARGUMENT`) always end the run,
   * without calling the function. Invalid arguments (`ToolInputParsingException`) and errors that are not
   * from MCP are thrown. @default 'message'
   */
  readonly onToolError?: 'message' | 'throw' | ToolErrorHandler | undefined
  /**
   * Limit of one call in milliseconds, in a graph with all rounds of its questions, without the time that people take. A
   * `timeout` of the run applies too. @default the client's own
   */
  readonly timeoutMs?: number | undefined
  /**
   * Handling of a call that the server continues as a task: `'wait'` waits for its end; `'interrupt'` interrupts the
   * graph, as `McpTaskInterrupt` describes. A graph without a checkpointer, and a node with several calls, waits.
   * @default 'wait'
   */
  readonly taskMode?: 'wait' | 'interrupt' | undefined
  /**
   * The provider of the model: OpenAI and Anthropic (`'common'`), one of them, Google, or any (`'none'`). It decides which
   * part of a tool's schema the model sees, and which images and files of a result; others become notes, and the
   * artifact has them. A function returns the schema. Arguments are always checked against the whole schema. `tool.schemaNotes`
   * lists the hidden parts. @default 'common'
   */
  readonly schemaFor?: SchemaProjection | undefined
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

/** A tool, before it has an object. */
export interface McpToolFields {
  /** The name that the model sees. */
  readonly name: string
  /** From the server's list or an agent definition. */
  readonly definition: ToolDefinition
  readonly server: McpServerLabel
  /** The client that calls the tool. */
  readonly source: McpToolSource
  readonly options: McpToolOptions
  readonly log: ToolLog
  readonly pins: ToolPins | undefined
  /** `true`: compares the definition with the server's before each call, because it was stored. */
  readonly refreshBeforeCall: boolean
  /**
   * `true`: an earlier process has read the definition. It is compared with the list that the source has read since,
   * without a request. @default false
   */
  readonly isStored?: boolean | undefined
  /** Arguments that the model does not set. @default none */
  readonly fixed?: FixedArguments | undefined
}

type CallContext = [runManager?: CallbackManagerForToolRun, config?: ToolRunnableConfig]

/** The types of core for a tool with any schema. */
type ToolInput = Parameters<StructuredTool['invoke']>[0]
type Output =
  StructuredTool extends StructuredTool<infer _S, infer _O, infer _I, infer Out> ? Out : never

/**
 * The methods of core that have its classes in their parameters, without these classes. Core has two sets of
 * declarations that do not fit each other, for ES modules and for CommonJS: `createAgent()` of a CommonJS project
 * would refuse the tools.
 */
// oxlint-disable-next-line typescript/no-unsafe-declaration-merging -- the class has each of these methods
export interface McpTool {
  invoke(input: unknown, config?: object): Promise<Output>
  call(input: unknown, config?: object, tags?: string[]): Promise<Output>
  batch(inputs: Output[], options?: object, batchOptions?: object): Promise<Output[]>
  stream(input: Output, options?: object): Promise<Output>
  transform(generator: AsyncGenerator<Output>, options: object): AsyncGenerator<Output>
}

/**
 * One tool of an MCP server. It holds the client and the tool's name on the server, never a session. So it
 * stays valid when the client reconnects, recovers, or is disposed of and used again.
 *
 * It has two schemas. `definition.inputSchema` is the server's own; arguments are checked against it before
 * the call, unless it cannot be evaluated here. `schema` is the part that the model sees.
 *
 * @example
 * ```ts
 * import { createMcpTools } from '@x/langchain-mcp'
 *
 * await using mcp = createMcpTools({ servers: { shop: { url: 'https://shop.example/mcp' } } })
 * for (const tool of await mcp.listTools()) console.log(tool.name, tool.definition.inputSchema)
 * ```
 */
// oxlint-disable-next-line typescript/no-unsafe-declaration-merging -- as above
export class McpTool extends StructuredTool {
  static override lc_name(): string {
    return 'McpTool'
  }

  override name: string
  override description: string
  readonly #binding: ToolBinding
  /** This tool for core, whose check then passes. An object for each call would take a fifth of its time. */
  readonly #unchecked: this = Object.create(this, {
    schema: { value: true },
    _call: { value: this.#answer.bind(this) },
  })

  constructor(fields: McpToolFields) {
    const { name, definition, server } = fields
    super({ responseFormat: 'content_and_artifact', metadata: metadataOf(definition, server) })
    this.name = name
    this.description = descriptionOf(definition)
    this.#binding = new ToolBinding(fields)
  }

  /** The server, and the tool's name there. */
  get origin(): McpToolOrigin {
    return this.#binding.origin
  }

  /** The schema that the model sees. It is computed at each access, so it is always current. */
  override get schema(): JSONSchema {
    const { schema, notes } = this.#binding.modelSchema
    if (notes.length > 0) this.metadata = { ...this.metadata, schema_notes: notes }
    return schema
  }

  /** Parts of the schema that the model does not see, one line each. They are checked at the call. */
  get schemaNotes(): readonly string[] {
    return this.#binding.modelSchema.notes
  }

  /** From the server or the agent definition, with title, annotations and `_meta`. */
  get definition(): ToolDefinition {
    return this.#binding.definition
  }

  /**
   * Calls the tool as core does, but without core's check of the arguments: it writes into the schema, and fails for
   * patterns and references that it cannot read. `ToolBinding` checks them.
   */
  override async invoke<Input extends ToolInput, Config extends ToolRunnableConfig | undefined>(
    input: Input,
    givenConfig?: Config,
  ): Promise<ToolReturnType<Input, Config, Output>> {
    const config = this.#configFrom(givenConfig)
    const toolCall = isToolCall(input) ? input : config.toolCall
    const scopedRun = currentRun()
    const { definition, options, origin } = this.#binding
    try {
      const ofCall = toolCall && { toolCall }
      // Core's `invoke()` calls this method. The inherited one would make the config once more.
      return await super.call.call(this.#unchecked, input, {
        runName: this.name,
        ...config,
        ...ofCall,
      })
    } catch (error) {
      if (toolCall === undefined || config.signal?.aborted === true) throw error
      if (scopedRun?.signal.aborted === true) return await failRun(scopedRun.signal.reason, config)
      const fatal = fatalFrom(error, origin, [])
      if (fatal !== undefined) return await failRun(fatal.error, config)
      // The `ToolNode` of LangChain's `createAgent()` turns thrown errors into messages.
      const isInToolNode = 'toolCallId' in config && config.toolCallId === toolCall.id
      const isThrown = options.onToolError === 'throw' && isInToolNode
      if (isThrown && McpToolError.is(error)) return await failRun(error, config)
      throw error
    } finally {
      if (this.definition !== definition) this.#describe()
    }
  }

  /** Merges the config with that of the surrounding run. Does nothing if there is none, because it would take a tenth of the time of a call. */
  #configFrom(given: ToolRunnableConfig | undefined): ToolRunnableConfig {
    const { defaultConfig } = this
    if (defaultConfig !== undefined) return ensureConfig(mergeConfigs(defaultConfig, given))
    return given === undefined && ambientConfig() === undefined ? {} : ensureConfig(given)
  }

  protected override _call(args: unknown, ...context: CallContext): Promise<Answer> {
    return this.#answer(args, ...context)
  }

  async #answer(
    args: unknown,
    runManager?: CallbackManagerForToolRun,
    givenConfig: ToolRunnableConfig = {},
  ): Promise<Answer> {
    const config: ToolRunnableConfig = runManager
      ? patchConfig(givenConfig, { callbacks: runManager.getChild() })
      : givenConfig
    const call = new ToolCall(this.#binding, this.name, config)
    // Core creates a run for each context, which takes as long as the call. Without these values, code inside has
    // nothing to read there.
    const { configurable, store }: ToolRunnableConfig & { readonly store?: unknown } = config
    if (runManager === undefined && configurable === undefined && store === undefined) {
      return call.answer(args)
    }
    // The context of `getConfig()` of LangGraph, and of runnables that are invoked inside.
    return AsyncLocalStorageProviderSingleton.runWithConfig(pickRunnableConfigKeys(config), () =>
      call.answer(args),
    )
  }

  /** Takes over the description and the metadata of a definition that replaced a stored one. */
  #describe(): void {
    const { definition, origin } = this.#binding
    this.description = descriptionOf(definition)
    const { schema_notes: _, ...metadata } = this.metadata ?? {}
    this.metadata = { ...metadata, ...metadataOf(definition, origin.server) }
  }
}

/** Bedrock refuses all tools if the description of one is empty (LibreChat#13209). */
function descriptionOf({ name, title, annotations, description }: ToolDefinition): string {
  const texts = [description, title, annotations?.title, name]
  return legible(
    texts.find((text) => typeof text === 'string' && legible(text).trim() !== '') ?? '',
  )
}

function isToolCall(input: unknown): input is ModelToolCall {
  return isRecord(input) && input['type'] === 'tool_call'
}

/** Metadata for spans and user interfaces. snake_case names are the convention there. */
function metadataOf(definition: ToolDefinition, server: McpServerLabel): Record<string, unknown> {
  const { name: toolName, title, annotations } = definition
  const { folderPath, slug, name } = server
  const ofServer = { folder_path: folderPath, slug, server_name: name }
  const known = definedFields({ ...ofServer, title, annotations })
  return { tool_type: 'mcp', display_name: toolName, ...known }
}
