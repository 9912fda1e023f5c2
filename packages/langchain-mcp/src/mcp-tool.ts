import {
  parseCallbackConfigArg,
  type CallbackManagerForToolRun,
} from '@langchain/core/callbacks/manager'
import { ToolMessage, type ToolCall } from '@langchain/core/messages'
import { StructuredTool, type ToolParams, type ToolRunnableConfig } from '@langchain/core/tools'
import type { JSONSchema } from '@langchain/core/utils/json_schema'
import { isRecord } from './is-record.ts'
import { McpToolError } from './mcp-tool-error.ts'
import { SchemaCheck } from './schema-check.ts'
import { toolArgumentsFrom } from './tool-arguments.ts'
import { isForTheCaller, toolErrorFrom } from './tool-failure.ts'
import { serverTitle, type McpServerLabel, type McpToolOrigin } from './tool-origin.ts'
import { textOf, toolOutputFrom, type ToolOutput, type ToolOutputOptions } from './tool-output.ts'
import type { JsonSchema, McpToolSource, ToolDefinition, ToolResult } from './tool-source.ts'

/** How the tools behave when they are called. */
export interface McpToolOptions extends ToolOutputOptions {
  /**
   * What a failure becomes: a message that tells the model what happened and what to do (a `ToolMessage`
   * with `status: 'error'`), or a thrown `McpToolError`. Failures that no model can repair (`CONFIG`,
   * `CLOSED`) and errors that do not come from MCP are thrown in any case. @default 'message'
   */
  readonly onToolError?: 'message' | 'throw' | undefined
  /** Limit of one call in milliseconds; a `timeout` of the run counts as well. @default the client's own */
  readonly timeoutMs?: number | undefined
}

export interface McpToolFields {
  /** The name that the model sees. */
  readonly name: string
  readonly definition: ToolDefinition
  readonly server: McpServerLabel
  readonly source: McpToolSource
  readonly options?: McpToolOptions | undefined
}

/** Content and artifact, in the form of core's `content_and_artifact`. */
type Answer = [content: ToolOutput['content'] | ToolMessage, artifact: unknown]

type Run = (args: Record<string, unknown>, config?: ToolRunnableConfig) => Promise<Answer>

const NO_PARAMETERS: JsonSchema = { type: 'object', properties: {} }

/**
 * One tool of an MCP server. Holds a handle (the client and the server's name for the tool), never a
 * session, so it stays valid when the client reconnects, recovers, or is disposed of and used again.
 *
 * Its schema is the server's JSON schema as it is. Arguments are checked against it before the call; a
 * schema that cannot be evaluated here leaves the check to the server.
 */
export class McpTool extends StructuredTool {
  static override lc_name(): string {
    return 'McpTool'
  }

  override name: string
  override description: string
  override schema: JSONSchema
  /** The way back from the model's name: server, and name on the wire. */
  readonly origin: McpToolOrigin
  /** As the server or the snapshot gave it, with title, annotations and `_meta`. */
  readonly definition: ToolDefinition
  readonly #source: McpToolSource
  readonly #options: McpToolOptions
  readonly #input: SchemaCheck
  readonly #output: SchemaCheck | undefined

  constructor({ name, definition, server, source, options = {} }: McpToolFields) {
    super({ responseFormat: 'content_and_artifact', metadata: metadataOf(definition, server) })
    const schema = definition.inputSchema ?? NO_PARAMETERS
    this.name = name
    this.description = definition.description ?? ''
    this.schema = schema
    this.origin = { server, toolName: definition.name }
    this.definition = definition
    this.#source = source
    this.#options = options
    this.#input = new SchemaCheck(schema)
    this.#output =
      definition.outputSchema === undefined ? undefined : new SchemaCheck(definition.outputSchema)
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
    const args = toolArgumentsFrom(isArguments ? input : toolCall.args, this.#input)
    const accepted: ToolCall = { ...toolCall, type: 'tool_call', name: this.name, args }
    const config: ToolRunnableConfig = { ...given, runName: given.runName ?? this.name }
    if (toolCall !== undefined) config.toolCall = toolCall
    const run = new AcceptedCall(this, (own, ownConfig) => this.#answer(own, ownConfig))
    return run.call(accepted, config, tags)
  }

  protected override _call(
    args: Record<string, unknown>,
    _runManager?: CallbackManagerForToolRun,
    config?: ToolRunnableConfig,
  ): Promise<Answer> {
    return this.#answer(args, config)
  }

  async #answer(args: Record<string, unknown>, config: ToolRunnableConfig = {}): Promise<Answer> {
    try {
      config.signal?.throwIfAborted()
      const result = await this.#source.callTool(this.origin.toolName, args, {
        signal: config.signal,
        timeoutMs: this.#options.timeoutMs ?? timeoutOf(config),
        config,
      })
      return this.#answerFrom(result, config)
    } catch (error) {
      if (config.signal?.aborted === true) throw error // whoever aborted wants no advice
      const failure = toolErrorFrom(error, this.origin)
      if (failure === undefined) throw error
      if (this.#options.onToolError === 'throw' || isForTheCaller(failure)) throw failure
      return failed(this.name, failure.message, { artifact: failure.artifact, config })
    }
  }

  #answerFrom(result: ToolResult, config: ToolRunnableConfig): Answer {
    const { content, artifact } = toolOutputFrom(result, this.#options)
    if (result.isError === true) {
      const isBlank = textOf(content).trim() === ''
      const reason = isBlank && typeof content === 'string' ? 'Unknown error' : content
      if (this.#options.onToolError !== 'throw') {
        return failed(this.name, reason, { artifact, config })
      }
      throw this.#error('TOOL_FAILED', textOf(reason), artifact)
    }
    const complaints =
      result.structuredContent === undefined
        ? []
        : (this.#output?.complaints(result.structuredContent) ?? [])
    if (complaints.length > 0) {
      const text = textOf(content)
      const shown = text === '' ? '' : ` It answered: ${text}`
      throw this.#error(
        'INVALID_OUTPUT',
        `The tool was executed, but its result does not fit the schema that it declares (${complaints.join('; ')}).${shown}`,
        artifact,
      )
    }
    return [content, artifact]
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

/** One call whose arguments were accepted. Made per call, so that it sees the tool as it is now. */
class AcceptedCall extends StructuredTool {
  static override lc_name(): string {
    return McpTool.lc_name()
  }

  override name: string
  override description: string
  override schema: JSONSchema = {}
  readonly #run: Run

  constructor(tool: McpTool, run: Run) {
    super(fieldsOf(tool))
    this.name = tool.name
    this.description = tool.description
    this.#run = run
  }

  protected override _call(
    args: Record<string, unknown>,
    _runManager?: CallbackManagerForToolRun,
    config?: ToolRunnableConfig,
  ): Promise<Answer> {
    return this.#run(args, config)
  }
}

function fieldsOf({ callbacks, tags, metadata, verbose, responseFormat }: McpTool): ToolParams {
  return {
    verbose,
    ...(callbacks !== undefined && { callbacks }),
    ...(tags !== undefined && { tags }),
    ...(metadata !== undefined && { metadata }),
    ...(responseFormat !== undefined && { responseFormat }),
  }
}

/** With a tool call at hand the failure is told as one; a plain `invoke(args)` gets the text alone. */
function failed(
  name: string,
  content: ToolOutput['content'],
  { artifact, config }: { readonly artifact: unknown; readonly config: ToolRunnableConfig },
): Answer {
  if (config.toolCall === undefined) return [content, artifact]
  return [
    new ToolMessage({
      status: 'error',
      content,
      artifact,
      name,
      tool_call_id: config.toolCall.id ?? '',
    }),
    undefined,
  ]
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
  const fields = {
    tool_type: 'mcp',
    display_name: definition.name,
    folder_path: server.folderPath,
    slug: server.slug,
    server_name: server.name,
    title: definition.title,
    annotations: definition.annotations,
  }
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
}
