import type { RequestOptions as SdkOptions } from '@modelcontextprotocol/sdk/shared/protocol.js'
import type { PaginatedResult } from '@modelcontextprotocol/sdk/types.js'
import { isRecord } from '@x/internal'
import { McpClientError, type LeftOutTool } from '@x/mcp-client'
import type {
  ListedResource,
  McpResourceSource,
  McpToolSource,
  PromptResult,
  ReadResource,
  RequestOptions,
  ToolCallOptions,
  ToolDefinition,
  ToolResult,
} from './tool-source.ts'

/** Limit of pages, as in other clients. A list with more pages comes from a server that repeats them. */
const MAX_PAGES = 64

/** Time that a list counts as current, in milliseconds. */
const LIST_MS = 300_000

interface ToolsRead {
  readonly tools: readonly ToolDefinition[]
  readonly leftOut: readonly LeftOutTool[]
}

/** The tools of a client of the SDK, which says nothing about changes. */
interface SdkToolList {
  /** Shared by concurrent callers. */
  readonly read: Promise<ToolsRead>
  /** The connection of the client when the list was requested. */
  readonly transport: unknown
  readonly until: number
}

type SdkRequestOptions = Pick<SdkOptions, 'signal' | 'timeout' | 'onprogress'>

interface PageRequest {
  cursor?: string
}

type Page = Pick<PaginatedResult, 'nextCursor'>

/** The members of the `Client` of SDK v1 and v2 that identify it. */
interface ConnectedClient {
  connect(...args: never[]): Promise<void>
  getServerVersion(): { readonly name: string } | undefined
}

/** The members of the `Client` of SDK v1 that tools need. SDK v2 takes the options of a call at another place. */
export interface SdkClient extends ConnectedClient {
  /** Undefined after the connection is closed. */
  readonly transport?: unknown
  listTools(params?: PageRequest): Promise<Page & { readonly tools: readonly ToolDefinition[] }>
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
    params?: PageRequest,
    options?: SdkRequestOptions,
  ): Promise<Page & { readonly resources: readonly ListedResource[] }>
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
  let last: SdkToolList | undefined
  return {
    async listTools({ onLeftOut } = {}) {
      const { transport } = client
      let list = last
      if (list === undefined || list.transport !== transport || performance.now() >= list.until) {
        const read = readTools(client)
        const fresh = (list = last = { read, transport, until: performance.now() + LIST_MS })
        read.catch(() => {
          if (last === fresh) last = undefined
        })
      }
      const { tools, leftOut } = await list.read
      for (const tool of leftOut) onLeftOut?.(tool)
      return tools
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
        if (answer['resultType'] !== 'task') return toToolResult(answer)
        const server = serverNameOf(client)
        const message = `MCP server "${server}" continues tool "${name}" as a task, and a Client of the SDK does not wait for tasks: use an McpClient, or a Client that does not declare the extension`
        const about = { server, tool: name, outcome: 'unknown' } as const
        throw new McpClientError('UNEXPECTED_RESPONSE', message, about)
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
    async listResources(options) {
      const pages = await allPages(client, {
        kind: 'resource',
        read: (params) => client.listResources(params, sdkOptionsFrom(options)),
      })
      return pages.flatMap(({ resources }) => resources)
    },
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
  switch (sdkFailureOf(error, client)) {
    case 'REQUEST_TIMEOUT': {
      const message = `MCP server "${server}" did not answer tool "${tool}" in time`
      return new McpClientError('TIMEOUT', message, { ...about, outcome: 'unknown' })
    }
    case 'CONNECTION_CLOSED': {
      const message = `The connection to MCP server "${server}" was closed during tool "${tool}"`
      return new McpClientError('OUTCOME_UNKNOWN', message, { ...about, outcome: 'unknown' })
    }
    // Streamable HTTP: the server does not know the session (2025-11-25, "Session Management").
    case 404: {
      const message = `MCP server "${server}" refused the session of the call of tool "${tool}"`
      return new McpClientError('SESSION_LOST', message, { ...about, outcome: 'not-executed' })
    }
    default:
      return undefined
  }
}

/** Returns a code of SDK v2, or the HTTP status of a response that is not MCP. */
function sdkFailureOf(error: Error & { readonly code: unknown }, client: SdkClient): unknown {
  const { name, code } = error
  if (name === 'SdkError') return code
  if (name === 'SdkHttpError') return 'status' in error ? error.status : undefined
  // This error class of SDK v1 sets no `name`.
  if (error.constructor.name === 'StreamableHTTPError') return code
  if (name !== 'McpError') return undefined
  const data = 'data' in error && isRecord(error.data) ? error.data : {}
  if (code === -32_001 && ('timeout' in data || 'maxTotalTimeout' in data)) return 'REQUEST_TIMEOUT'
  return code === -32_000 && client.transport === undefined ? 'CONNECTION_CLOSED' : undefined
}

/** The list ends at a repeated cursor: proxies are known to drop the cursor of a request. A tool is in it once. */
async function readTools(client: SdkClient): Promise<ToolsRead> {
  const leftOut: LeftOutTool[] = []
  const reason = 'the server returned the same cursor of tools/list twice'
  const onRepeated = (): unknown => leftOut.push({ name: 'tools of further pages', reason })
  const pages = await allPages(client, {
    kind: 'tool',
    read: (params) => client.listTools(params),
    onRepeated,
  })
  const tools = pages.flatMap((page) => page.tools)
  if (leftOut.length === 0) return { tools, leftOut }
  const first = new Map<string, ToolDefinition>()
  for (const tool of tools) if (!first.has(tool.name)) first.set(tool.name, tool)
  return { tools: [...first.values()], leftOut }
}

interface PagedList<Result> {
  readonly kind: 'tool' | 'resource'
  readonly read: (params: PageRequest) => Promise<Result>
  /** Called if a cursor is repeated, which ends the list. @default the list is refused */
  readonly onRepeated?: () => unknown
}

async function allPages<Result extends Page>(
  client: ConnectedClient,
  { kind, read, onRepeated }: PagedList<Result>,
): Promise<Result[]> {
  const pages: Result[] = []
  const seen = new Set<string>()
  let params: PageRequest = {}
  while (pages.length < MAX_PAGES) {
    const page = await read(params)
    pages.push(page)
    const { nextCursor: cursor } = page
    if (cursor === undefined) return pages
    if (seen.has(cursor)) {
      if (onRepeated === undefined) break
      onRepeated()
      return pages
    }
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

function toToolResult(value: Readonly<Record<string, unknown>>): ToolResult {
  const { content, structuredContent, isError, _meta } = value
  return {
    content: Array.isArray(content) ? content : [],
    structuredContent,
    isError: isError === true,
    _meta: isRecord(_meta) ? _meta : undefined,
  }
}
