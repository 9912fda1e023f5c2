import { isRecord } from '@x/internal'
import { McpClientError, type Progress } from '@x/mcp-client'
import type {
  ListedResource,
  McpResourceSource,
  PromptResult,
  ReadResource,
} from './tool-source.ts'
import { ToolListCache } from './tool-lists.ts'
import type {
  McpToolSource,
  RequestOptions,
  ToolCallOptions,
  ToolDefinition,
  ToolResult,
} from './tool-source.ts'

/** Limit of pages, as in other clients. A list with more pages comes from a server that repeats them. */
const MAX_PAGES = 64

const LIST_MAX_AGE_MS = 300_000

/** JSON-RPC codes that the SDK's client also uses for its own errors. A server may use them for anything. */
const CONNECTION_CLOSED = -32_000
const REQUEST_TIMEOUT = -32_001

/** Streamable HTTP: the server does not know the session (2025-11-25, "Session Management"). */
const HTTP_NOT_FOUND = 404

interface SdkRequestOptions {
  readonly signal?: AbortSignal
  readonly timeout?: number
  readonly onprogress?: (progress: Progress) => void
}

/** The members of the `Client` of SDK v1 and v2 that identify it. */
interface ConnectedClient {
  connect(...args: never[]): Promise<void>
  getServerVersion(): { readonly name: string } | undefined
}

/** The members of the `Client` of SDK v1 that tools need. SDK v2 takes the options of a call at another place. */
export interface SdkClient extends ConnectedClient {
  /** Undefined after the connection is closed. */
  readonly transport?: unknown
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

/** SDK v2 checks results without a schema, and takes options where v1 takes the schema. */
interface SdkClientV2 {
  callTool(
    params: { name: string; arguments?: Record<string, unknown> },
    options: SdkRequestOptions,
  ): Promise<Readonly<Record<string, unknown>>>
}

/** The members of the `Client` of SDK v1 or v2 that loading resources needs. */
export interface SdkResourceClient extends ConnectedClient {
  listResources(
    params?: { cursor?: string },
    options?: SdkRequestOptions,
  ): Promise<{
    readonly resources: readonly ListedResource[]
    readonly nextCursor?: string | undefined
  }>
  readResource(params: { uri: string }, options?: SdkRequestOptions): Promise<ReadResource>
}

/** The members of the `Client` of SDK v1 or v2 that loading a prompt needs. */
export interface SdkPromptClient extends ConnectedClient {
  getPrompt(
    params: { name: string; arguments?: Record<string, string> },
    options?: SdkRequestOptions,
  ): Promise<PromptResult>
}

/** Whether a client is the SDK's. Our own connects at its first use and has no `connect()`. */
export function isSdkClient<Client extends ConnectedClient>(
  client: object | Client,
): client is Client {
  return 'connect' in client && 'getServerVersion' in client
}

/** Returns the name of the connected server, for messages. */
function serverNameOf(client: ConnectedClient): string {
  return client.getServerVersion()?.name ?? 'unnamed'
}

export function sdkOptionsFrom({ signal, timeoutMs }: RequestOptions = {}): SdkRequestOptions {
  return {
    ...(signal !== undefined && { signal }),
    ...(timeoutMs !== undefined && { timeout: timeoutMs }),
  }
}

/**
 * Makes a tool source from a connected `Client` of SDK v1 or v2. It lists all pages. An aborted call rejects
 * with the reason of its signal (the SDK rejects with a time-out). The SDK stops waiting after 60 s unless a
 * limit is given. A list is cached for five minutes of one connection, because the SDK does not say when it
 * changes.
 */
export function toolSourceFrom(client: SdkClient): McpToolSource {
  let cache = new ToolListCache({ maxAgeMs: LIST_MAX_AGE_MS, max: 1 })
  let connection = client.transport
  return {
    listTools() {
      if (connection !== client.transport) {
        connection = client.transport
        cache = new ToolListCache({ maxAgeMs: LIST_MAX_AGE_MS, max: 1 })
      }
      return cache.get(undefined, () =>
        allPages(client, 'tool', async (params) => {
          const { tools, nextCursor } = await client.listTools(params)
          return { items: tools, nextCursor }
        }),
      )
    },
    async callTool(name, args = {}, { signal, timeoutMs, onProgress }: ToolCallOptions = {}) {
      const options = {
        ...sdkOptionsFrom({ signal, timeoutMs }),
        ...(onProgress !== undefined && { onprogress: onProgress }),
      }
      try {
        const call = { name, arguments: args }
        const answer = isSdkV2(client)
          ? await client.callTool(call, options)
          : await client.callTool(call, undefined, options)
        return toToolResult(answer)
      } catch (error) {
        signal?.throwIfAborted()
        throw unansweredError(error, client, name) ?? error
      }
    },
  }
}

/** Makes a resource source from any client. The SDK's lists all pages. */
export function resourceSourceFrom(
  client: McpResourceSource | SdkResourceClient,
): McpResourceSource {
  if (!isSdkClient<SdkResourceClient>(client)) return client
  return {
    listResources: (options) =>
      allPages(client, 'resource', async (params) => {
        const page = await client.listResources(params, sdkOptionsFrom(options))
        return { items: page.resources, nextCursor: page.nextCursor }
      }),
    readResource: (uri, options) => client.readResource({ uri }, sdkOptionsFrom(options)),
  }
}

function isSdkV2(client: object): client is SdkClientV2 {
  return 'getProtocolEra' in client
}

/** Returns the error for a call that the SDK gave up. Servers may use the same codes, so other fields count too. */
function unansweredError(
  error: unknown,
  client: SdkClient,
  tool: string,
): McpClientError | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined
  const server = serverNameOf(client)
  const about = { server, tool, cause: error }
  if (isTimeout(error)) {
    const message = `MCP server "${server}" did not answer tool "${tool}" in time`
    return new McpClientError('TIMEOUT', message, { ...about, outcome: 'unknown' })
  }
  if (isClosed(error, client)) {
    const message = `The connection to MCP server "${server}" was closed during tool "${tool}"`
    return new McpClientError('OUTCOME_UNKNOWN', message, { ...about, outcome: 'unknown' })
  }
  if (httpStatus(error) === HTTP_NOT_FOUND) {
    const message = `MCP server "${server}" refused the session of the call of tool "${tool}"`
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

/** Returns the HTTP status of a response that is not MCP. The error class of SDK v1 sets no `name`. */
function httpStatus(error: CodedError): unknown {
  if (error.name === 'SdkHttpError') return 'status' in error ? error.status : undefined
  return error.constructor.name === 'StreamableHTTPError' ? error.code : undefined
}

interface Page<Item> {
  readonly items: readonly Item[]
  readonly nextCursor: string | undefined
}

async function allPages<Item>(
  client: ConnectedClient,
  kind: 'tool' | 'resource',
  read: (params: { cursor?: string }) => Promise<Page<Item>>,
): Promise<Item[]> {
  const all: Item[] = []
  const seen = new Set<string>()
  let params: { cursor?: string } = {}
  for (let pages = 0; pages < MAX_PAGES; pages++) {
    const { items, nextCursor: cursor } = await read(params)
    all.push(...items)
    if (cursor === undefined) return all
    if (seen.has(cursor)) break
    seen.add(cursor)
    params = { cursor }
  }
  const server = serverNameOf(client)
  throw new McpClientError(
    'INVALID_LIST',
    `The ${kind} list of MCP server "${server}" does not end: its pages repeat, or there are more than ${MAX_PAGES}. Report this to the author of the server.`,
    { server },
  )
}

/** Servers of revision 2024-10-07 answer with `toolResult`, not `content`. */
function toToolResult(value: Readonly<Record<string, unknown>>): ToolResult {
  const { content, structuredContent, isError, _meta, toolResult } = value
  return {
    content: Array.isArray(content) ? content : toolResult === undefined ? [] : [toolResult],
    structuredContent,
    isError: isError === true,
    _meta: isRecord(_meta) ? _meta : undefined,
  }
}
