import { isRecord } from '@x/internal'
import { McpClientError, type Progress } from '@x/mcp-client'
import { ToolCatalogue } from './tool-catalogue.ts'
import type { McpToolSource, ToolCallOptions, ToolDefinition, ToolResult } from './tool-source.ts'

/** The most that other clients follow, too; a catalogue of more pages is a server that goes in circles. */
const MAX_PAGES = 64

const LIST_MAX_AGE_MS = 300_000

/** JSON-RPC codes that the SDK's client also makes up itself; a server may use them for anything. */
const CONNECTION_CLOSED = -32_000
const REQUEST_TIMEOUT = -32_001

/** Streamable HTTP: a session that the server does not know (2025-11-25, "Session Management"). */
const HTTP_NOT_FOUND = 404

interface SdkRequestOptions {
  readonly signal?: AbortSignal
  readonly timeout?: number
  readonly onprogress?: (progress: Progress) => void
}

/** What we need of the `Client` of SDK v1; that of v2 differs in how it is given options. */
export interface SdkClient {
  /** Absent once the connection is closed. */
  readonly transport?: unknown
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

/** SDK v2 checks results by itself, and takes options where v1 takes a schema. */
interface SdkClientV2 {
  callTool(
    params: { name: string; arguments?: Record<string, unknown> },
    options: SdkRequestOptions,
  ): Promise<Readonly<Record<string, unknown>>>
}

function isOfSdkV2(client: object): client is SdkClientV2 {
  return 'getProtocolEra' in client
}

/** Whether a client is the SDK's: it is connected by hand, ours connects itself. */
export function isSdkClient(client: McpToolSource | SdkClient): client is SdkClient {
  return 'connect' in client && 'getServerVersion' in client
}

/**
 * A tool source from a connected `Client` of the SDK, v1 or v2: lists all pages, and an aborted call ends with the
 * reason of its signal (the SDK makes a time-out of it). The SDK stops waiting after 60 s unless a limit
 * is given. A list is kept for five minutes of one connection: the SDK does not say when it changes.
 */
export function toolSourceFrom(client: SdkClient): McpToolSource {
  let catalogue = new ToolCatalogue({ maxAgeMs: LIST_MAX_AGE_MS, max: 1 })
  let connection = client.transport
  return {
    listTools() {
      if (connection !== client.transport) {
        connection = client.transport
        catalogue = new ToolCatalogue({ maxAgeMs: LIST_MAX_AGE_MS, max: 1 })
      }
      return catalogue.get(undefined, () => allTools(client))
    },
    async callTool(name, args = {}, { signal, timeoutMs, onProgress }: ToolCallOptions = {}) {
      const options = {
        ...(signal !== undefined && { signal }),
        ...(timeoutMs !== undefined && { timeout: timeoutMs }),
        ...(onProgress !== undefined && { onprogress: onProgress }),
      }
      try {
        const call = { name, arguments: args }
        const answer = isOfSdkV2(client)
          ? await client.callTool(call, options)
          : await client.callTool(call, undefined, options)
        return toolResultFrom(answer)
      } catch (error) {
        signal?.throwIfAborted()
        throw unansweredFrom(error, client, name) ?? error
      }
    },
  }
}

/** A call that the SDK gave up: its codes for that are also those of servers, so it takes more to tell. */
function unansweredFrom(
  error: unknown,
  client: SdkClient,
  tool: string,
): McpClientError | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined
  const server = nameOf(client)
  const about = { server, tool, cause: error }
  if (isTimeout(error)) {
    const message = `MCP server "${server}" gave no answer to tool "${tool}" in time`
    return new McpClientError('TIMEOUT', message, { ...about, outcome: 'unknown' })
  }
  if (isClosed(error, client)) {
    const message = `The connection to MCP server "${server}" was closed during tool "${tool}"`
    return new McpClientError('OUTCOME_UNKNOWN', message, { ...about, outcome: 'unknown' })
  }
  if (statusOf(error) === HTTP_NOT_FOUND) {
    const message = `MCP server "${server}" refused the session that tool "${tool}" was called in`
    return new McpClientError('SESSION_LOST', message, { ...about, outcome: 'not-executed' })
  }
  return undefined
}

interface CodedError extends Error {
  readonly code: unknown
}

function isTimeout(error: CodedError): boolean {
  if (error.name === 'SdkError') return error.code === 'REQUEST_TIMEOUT'
  return (
    error.name === 'McpError' &&
    error.code === REQUEST_TIMEOUT &&
    'data' in error &&
    isRecord(error.data) &&
    ('timeout' in error.data || 'maxTotalTimeout' in error.data)
  )
}

function isClosed(error: CodedError, client: SdkClient): boolean {
  if (error.name === 'SdkError') return error.code === 'CONNECTION_CLOSED'
  return (
    error.name === 'McpError' && error.code === CONNECTION_CLOSED && client.transport === undefined
  )
}

/** Of an answer over HTTP that was none of MCP. The error of v1 has no name of its own. */
function statusOf(error: CodedError): unknown {
  if (error.name === 'SdkHttpError') return 'status' in error ? error.status : undefined
  return error.constructor.name === 'StreamableHTTPError' ? error.code : undefined
}

function nameOf(client: SdkClient): string {
  return client.getServerVersion()?.name ?? 'unnamed'
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
  const server = nameOf(client)
  throw new McpClientError(
    'INVALID_LIST',
    `The tool list of MCP server "${server}" has no end: its pages repeat, or are more than ${MAX_PAGES}`,
    { server },
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
