import type { RunnableConfig } from '@langchain/core/runnables'
import type { ToolAnnotations } from '@modelcontextprotocol/sdk/types.js'
import { check, type Checks } from '@x/internal'
import type {
  CallOptions,
  CallToolOptions,
  LeftOutTool,
  McpTask,
  ServerLog,
  TimeoutExtension,
} from '@x/mcp-client'

/** The server of a tool. At least one of `slug` and `name` identifies it. */
export interface McpServerLabel {
  /** Name in a server directory. */
  readonly slug?: string | undefined
  /** Name in the config or the agent definition, for people. */
  readonly name?: string | undefined
  /** Folder in the server directory. */
  readonly folderPath?: string | undefined
}

/** The server of a tool and the tool's name there. A model sees another name. */
export interface McpToolOrigin {
  readonly server: McpServerLabel
  /** Name of the tool on the server. */
  readonly toolName: string
}

/** A tool that is left out, with the reason. */
export interface QuarantinedTool extends McpToolOrigin {
  readonly reason: string
}

export function serverTitle(server: McpServerLabel): string {
  return server.slug ?? server.name ?? 'unnamed'
}

/** Returns equal text for equal origins only. */
export function originKey({ server, toolName }: McpToolOrigin): string {
  return JSON.stringify([server.folderPath ?? '', server.slug ?? server.name ?? '', toolName])
}

/** A JSON schema exactly as a server wrote it. */
export type JsonSchema = Readonly<Record<string, unknown>>

/** A tool as `tools/list` or an agent definition describes it. */
export interface ToolDefinition {
  /** Name of the tool on the server. */
  readonly name: string
  readonly title?: string | undefined
  readonly description?: string | undefined
  /** @default { type: 'object', properties: {} } */
  readonly inputSchema?: JsonSchema | undefined
  readonly outputSchema?: JsonSchema | undefined
  /** Hints of the server. Do not base security on them (specification, "Tool Annotations"). */
  readonly annotations?: ToolAnnotations | undefined
  /** `taskSupport: 'required'`: the tool can only be called as a task (2025-11-25, "Tasks"). */
  readonly execution?: { readonly taskSupport?: string | undefined } | undefined
  readonly _meta?: Readonly<Record<string, unknown>> | undefined
}

/**
 * Returns true if a tool may destroy something, by its annotations: all without `readOnlyHint: true` and
 * `destructiveHint: false` (specification, "Tool Annotations"). These hints come from the server; for an
 * untrusted server, select by name.
 *
 * @example
 * ```ts
 * import { mayDestroy } from '@x/langchain-mcp'
 *
 * const inputSchema = { type: 'object' } as const
 * mayDestroy({ name: 'pay', inputSchema }) // true: the server says nothing
 * mayDestroy({ name: 'look', inputSchema, annotations: { readOnlyHint: true } }) // false
 * ```
 */
export function mayDestroy({ annotations }: ToolDefinition): boolean {
  return annotations?.readOnlyHint !== true && annotations?.destructiveHint !== false
}

/** Result of `tools/call`. Blocks are `unknown` because servers may send types that are not known here. */
export interface ToolResult {
  /** `'input_required'`: the server needs input before it can answer. Only with `inputRequired: 'surface'`. */
  readonly type?: unknown
  readonly content?: readonly unknown[] | undefined
  readonly structuredContent?: unknown
  readonly isError?: boolean | undefined
  readonly _meta?: Readonly<Record<string, unknown>> | undefined
}

/** Limits of one request, and the user that it is for. */
export interface RequestOptions extends Pick<CallOptions, 'signal' | 'timeoutMs'> {
  /** Config of the run. It selects the session, in sources that serve several users. */
  readonly config?: RunnableConfig | undefined
}

/** Options of a list of tools. */
interface ListToolsOptions extends RequestOptions {
  /** Accepts a list that an earlier process has stored, while it counts as current. @default false */
  readonly acceptStored?: boolean | undefined
  /** Receives each tool that the server has and that cannot be used. A source without such tools ignores it. */
  readonly onLeftOut?: ((tool: LeftOutTool) => void) | undefined
}

/** Options of one call. A source ignores the options that it does not support. */
export interface ToolCallOptions
  extends
    RequestOptions,
    Pick<
      CallToolOptions,
      | 'caller'
      | 'headers'
      | 'idempotencyKey'
      | 'inputRequired'
      | 'meta'
      | 'onProgress'
      | 'resume'
      | 'sentAt'
      | 'timeout'
    > {}

/** A session was replaced, and the state that the server kept in the old one is lost. */
export interface SessionReplaced {
  /** Number of the new session with this server, in this scope and process. */
  readonly epoch: number
  /** A text for logs. */
  readonly reason: string
}

/** The result of a call, or the task that the server continues it as. */
export type StartedCall =
  | { readonly result: ToolResult; readonly task?: undefined }
  | { readonly task: Pick<McpTask, 'reference' | 'status'>; readonly result?: undefined }

/** The client methods that tools need. */
export interface McpToolSource {
  /** Limit of one call without `timeoutMs`, in milliseconds. Time that a person takes does not count. @default 600_000 */
  readonly timeoutMs?: number | undefined
  /** Lets progress of a call restart its limit. @default progress changes no limit */
  readonly timeout?: TimeoutExtension | undefined
  /** Returns every tool of the server, from all pages. */
  listTools(options?: ListToolsOptions): Promise<readonly ToolDefinition[]>
  callTool(
    name: string,
    args?: Record<string, unknown>,
    options?: ToolCallOptions,
  ): Promise<ToolResult>
  /** Calls a tool, and returns the task if the server continues the call as one. @default no tasks */
  startTool?(
    name: string,
    args?: Record<string, unknown>,
    options?: ToolCallOptions,
  ): Promise<StartedCall>
  /** Returns the last list for callers with this config, without a request. Only for sources of stored lists. */
  knownTools?(config: RunnableConfig): readonly ToolDefinition[] | undefined
  /** Returns the principal of a call, for sources that serve several users. */
  principalOf?(config: RunnableConfig): string | undefined
  /**
   * Listens to log messages of the server for callers with this config. Returns a function that removes the
   * listener.
   */
  on?(event: 'serverLog', listener: (log: ServerLog) => void, config?: RunnableConfig): () => void
}

export const requestChecks: Checks<RequestOptions> = {
  signal: { ...check.methods('addEventListener'), takes: 'an AbortSignal' },
  timeoutMs: check.number(),
  config: check.record,
}

/** A resource as a server lists it. */
export interface ListedResource extends Pick<ToolDefinition, 'title' | 'description'> {
  readonly uri: string
  readonly name?: string | undefined
  readonly mimeType?: string | undefined
}

/** Result of `resources/read`: text or base64, for one or several URIs. */
export interface ReadResource {
  readonly contents: readonly Readonly<Record<string, unknown>>[]
}

/** The two client methods that loading resources needs. `McpClient` and `McpTools.server()` have them. */
export interface McpResourceSource {
  /** Returns every resource of the server, from all pages. */
  listResources(options?: RequestOptions): Promise<readonly ListedResource[]>
  readResource(uri: string, options?: RequestOptions): Promise<ReadResource>
}

/** Result of `prompts/get`. Content is `unknown` because servers may send types that are not known here. */
export interface PromptResult {
  readonly description?: string | undefined
  readonly messages: readonly { readonly role: string; readonly content: unknown }[]
}

/** The client method that loading a prompt needs. `McpClient` and `McpTools.server()` have it. */
export interface McpPromptSource {
  getPrompt(
    name: string,
    args?: Readonly<Record<string, string>>,
    options?: RequestOptions,
  ): Promise<PromptResult>
}
