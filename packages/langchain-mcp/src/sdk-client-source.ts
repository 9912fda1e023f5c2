import { isRecord } from './is-record.ts'
import type { McpToolSource, ToolCallOptions, ToolDefinition, ToolResult } from './tool-source.ts'

/** The most that other clients follow, too; a catalogue of more pages is a server that goes in circles. */
const MAX_PAGES = 64

interface SdkRequestOptions {
  readonly signal?: AbortSignal
  readonly timeout?: number
}

/** What we need of the `Client` of `@modelcontextprotocol/sdk` (version 1). */
export interface SdkClient {
  connect(...args: never[]): Promise<void>
  getServerVersion(): { readonly name: string } | undefined
  listTools(params?: { cursor?: string }): Promise<{
    readonly tools: readonly ToolDefinition[]
    readonly nextCursor?: string | undefined
  }>
  callTool(
    params: { name: string; arguments?: Record<string, unknown> },
    resultSchema?: undefined,
    options?: SdkRequestOptions,
  ): Promise<Readonly<Record<string, unknown>>>
}

/** Whether a client is the SDK's: it is connected by hand, ours connects itself. */
export function isSdkClient(client: McpToolSource | SdkClient): client is SdkClient {
  return 'connect' in client && 'getServerVersion' in client
}

/**
 * A tool source from a connected `Client` of SDK v1: lists all pages, and an aborted call ends with the
 * reason of its signal (the SDK makes a time-out of it). The SDK stops waiting after 60 s unless a limit
 * is given.
 */
export function toolSourceFrom(client: SdkClient): McpToolSource {
  return {
    listTools: () => allTools(client),
    async callTool(name, args = {}, { signal, timeoutMs }: ToolCallOptions = {}) {
      const options = {
        ...(signal !== undefined && { signal }),
        ...(timeoutMs !== undefined && { timeout: timeoutMs }),
      }
      try {
        return toolResultFrom(await client.callTool({ name, arguments: args }, undefined, options))
      } catch (error) {
        signal?.throwIfAborted()
        throw error
      }
    },
  }
}

async function allTools(client: SdkClient): Promise<ToolDefinition[]> {
  const tools: ToolDefinition[] = []
  const seen = new Set<string>()
  let cursor: string | undefined
  for (let pages = 0; pages < MAX_PAGES; pages++) {
    const page = await client.listTools(cursor === undefined ? {} : { cursor })
    tools.push(...page.tools)
    cursor = page.nextCursor
    if (cursor === undefined) return tools
    if (seen.has(cursor)) break
    seen.add(cursor)
  }
  const name = client.getServerVersion()?.name ?? 'unnamed'
  throw new Error(
    `The tool list of MCP server "${name}" has no end: its pages repeat, or are more than ${MAX_PAGES}`,
  )
}

/** Old servers (2024-10-07) answer with `toolResult` in place of `content`. */
function toolResultFrom(value: Readonly<Record<string, unknown>>): ToolResult {
  const { content, structuredContent, isError, _meta, toolResult } = value
  return {
    content: Array.isArray(content) ? content : toolResult === undefined ? [] : [toolResult],
    structuredContent,
    isError: isError === true,
    _meta: isRecord(_meta) ? _meta : undefined,
  }
}
