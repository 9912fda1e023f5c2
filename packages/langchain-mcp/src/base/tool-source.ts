import type { RunnableConfig } from '@langchain/core/runnables'
import type { Caller, InputResume, Progress, ServerLog } from '@x/mcp-client'

/** Which server a tool comes from. At least one of `slug` and `name` tells it from others. */
export interface McpServerLabel {
  /** By which a directory knows it. */
  readonly slug?: string | undefined
  /** As in the config or the agent definition, for people. */
  readonly name?: string | undefined
  /** The folder of the directory that it is in. */
  readonly folderPath?: string | undefined
}

/** What stands behind the name that a model sees: the exact way back to the server and its own name for the tool. */
export interface McpToolOrigin {
  readonly server: McpServerLabel
  /** The name on the wire. */
  readonly toolName: string
}

/** How a server is called in messages. */
export function serverTitle(server: McpServerLabel): string {
  return server.slug ?? server.name ?? 'unnamed'
}

/** Equal for equal origins, and for no others. */
export function originKey({ server, toolName }: McpToolOrigin): string {
  return JSON.stringify([server.folderPath ?? '', server.slug ?? server.name ?? '', toolName])
}

/** A JSON schema as a server wrote it: never converted, never narrowed. */
export type JsonSchema = Readonly<Record<string, unknown>>

/** Hints of a server about one of its tools. Not to be trusted for anything that matters (specification, "Tool Annotations"). */
export interface ToolAnnotations {
  readonly title?: string | undefined
  readonly readOnlyHint?: boolean | undefined
  readonly destructiveHint?: boolean | undefined
  readonly idempotentHint?: boolean | undefined
  readonly openWorldHint?: boolean | undefined
}

/** A tool as `tools/list` or a snapshot describes it. */
export interface ToolDefinition {
  /** The name on the wire. */
  readonly name: string
  readonly title?: string | undefined
  readonly description?: string | undefined
  /** @default { type: 'object', properties: {} } */
  readonly inputSchema?: JsonSchema | undefined
  readonly outputSchema?: JsonSchema | undefined
  readonly annotations?: ToolAnnotations | undefined
  /** `taskSupport: 'required'`: it can only be called as a task (2025-11-25, "Tasks"). */
  readonly execution?: { readonly taskSupport?: string | undefined } | undefined
  readonly _meta?: Readonly<Record<string, unknown>> | undefined
}

/** What `tools/call` answers. Blocks are `unknown` because servers are free to send types that no one here has heard of. */
export interface ToolResult {
  /** `'input_required'`: no result, but what the server must know first. Only where that was to be surfaced. */
  readonly type?: unknown
  readonly content?: readonly unknown[] | undefined
  readonly structuredContent?: unknown
  readonly isError?: boolean | undefined
  readonly _meta?: Readonly<Record<string, unknown>> | undefined
  /** A text of this package that the model reads after the content; never from the server. */
  readonly note?: string | undefined
}

/** Bounds of one call. */
export interface ToolCallOptions {
  readonly signal?: AbortSignal | undefined
  /** Limit of the whole call in milliseconds. @default the source's own */
  readonly timeoutMs?: number | undefined
  /** What the tool was called with: says whose call it is, where a source tells callers apart. */
  readonly config?: RunnableConfig | undefined
  /** Told of each progress notification. */
  readonly onProgress?: ((progress: Progress) => void) | undefined
  /** `'surface'` hands up what a server must know first, where it asks by handing the call back. @default 'answer' */
  readonly inputRequired?: 'answer' | 'surface' | undefined
  /** Continues a call that was surfaced. */
  readonly resume?: InputResume | undefined
  /** Given back with each question of the call, by sources that can. */
  readonly caller?: Caller | undefined
  /** When the call gets a session of its own, by sources that can: see `CallToolOptions` of `@x/mcp-client`. */
  readonly ownSession?: 'always' | 'when-shared' | undefined
  /** Sent with this call alone, over those of the server's config, by sources that can. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Sent as `_meta` of the request, by sources that can. */
  readonly meta?: Readonly<Record<string, unknown>> | undefined
  /** Told, before the call ends, that another session took the place of the caller's, by sources that know. */
  readonly onSessionReplaced?: ((news: SessionReplaced) => void) | undefined
}

/** What the server kept in the session that the caller used before is gone. */
export interface SessionReplaced {
  /** Counts the sessions with this server, of this scope and process. */
  readonly epoch: number
  /** In words, for a log. */
  readonly reason: string
}

/** What a list is for. */
export interface ToolListOptions {
  /** Whom it is for. @default nobody in particular */
  readonly config?: RunnableConfig | undefined
  readonly signal?: AbortSignal | undefined
  /** Limit in milliseconds. @default the source's own */
  readonly timeoutMs?: number | undefined
}

/** The two calls we need of a client; anything that has them will do. */
export interface McpToolSource {
  /** Every tool of the server: all pages. */
  listTools(options?: ToolListOptions): Promise<readonly ToolDefinition[]>
  callTool(
    name: string,
    args?: Record<string, unknown>,
    options?: ToolCallOptions,
  ): Promise<ToolResult>
  /** Whom a call with this config is made for, where callers are told apart. */
  principalOf?(config: RunnableConfig): string | undefined
  /** Tells what the server logs for callers with this config. Returns the undo function. */
  on?(event: 'serverLog', listener: (log: ServerLog) => void, config?: RunnableConfig): () => void
}
