import type { RunnableConfig } from '@langchain/core/runnables'
import { check } from '@x/internal'
import type { Checks } from '@x/internal'
import { McpClientError } from '@x/mcp-client'

/** Bounds of one request, and whom it is for. */
export interface ResourceOptions {
  readonly signal?: AbortSignal | undefined
  /** Limit of one request in milliseconds. @default the client's own */
  readonly timeoutMs?: number | undefined
  /** Whose session serves it, where a source tells callers apart. */
  readonly config?: RunnableConfig | undefined
}

export const requestChecks: Checks<ResourceOptions> = {
  signal: { ...check.methods('addEventListener'), takes: 'an AbortSignal' },
  timeoutMs: check.number(),
  config: check.record,
}

/** A resource as a server lists it. */
export interface ListedResource {
  readonly uri: string
  readonly name?: string | undefined
  readonly title?: string | undefined
  readonly description?: string | undefined
  readonly mimeType?: string | undefined
}

/** What reading a resource gives: a text or base64, for one or several addresses. */
export interface ReadResource {
  readonly contents: readonly Readonly<Record<string, unknown>>[]
}

/** The two calls we need of a client; `McpClient` and `McpTools.server()` have them. */
export interface McpResourceSource {
  /** Every resource of the server: all pages. */
  listResources(options?: ResourceOptions): Promise<readonly ListedResource[]>
  readResource(uri: string, options?: ResourceOptions): Promise<ReadResource>
}

interface SdkRequestOptions {
  readonly signal?: AbortSignal
  readonly timeout?: number
}

/** What we need of the `Client` of the SDK, v1 or v2. */
export interface SdkResourceClient {
  connect(...args: never[]): Promise<void>
  getServerVersion(): { readonly name: string } | undefined
  listResources(
    params?: { cursor?: string },
    options?: SdkRequestOptions,
  ): Promise<{
    readonly resources: readonly ListedResource[]
    readonly nextCursor?: string | undefined
  }>
  readResource(params: { uri: string }, options?: SdkRequestOptions): Promise<ReadResource>
}

/** As many as other lists may have; a catalogue of more pages is a server that goes in circles. */
const MAX_PAGES = 64

export function resourceSourceFrom(
  client: McpResourceSource | SdkResourceClient,
): McpResourceSource {
  if (!isSdkClient(client)) return client
  return {
    listResources: (options) => allResources(client, options),
    readResource: (uri, options) => client.readResource({ uri }, sdkOptionsFrom(options)),
  }
}

function isSdkClient(client: McpResourceSource | SdkResourceClient): client is SdkResourceClient {
  return 'connect' in client && 'getServerVersion' in client
}

async function allResources(
  client: SdkResourceClient,
  options: ResourceOptions | undefined,
): Promise<ListedResource[]> {
  const resources: ListedResource[] = []
  let cursor: string | undefined
  for (let pages = 0; pages < MAX_PAGES; pages++) {
    const page = await client.listResources(
      cursor === undefined ? {} : { cursor },
      sdkOptionsFrom(options),
    )
    resources.push(...page.resources)
    cursor = page.nextCursor
    if (cursor === undefined) return resources
  }
  const server = client.getServerVersion()?.name ?? 'unnamed'
  throw new McpClientError(
    'INVALID_LIST',
    `The resource list of MCP server "${server}" has no end: it has more than ${MAX_PAGES} pages`,
    { server },
  )
}

export function sdkOptionsFrom({ signal, timeoutMs }: ResourceOptions = {}): SdkRequestOptions {
  return {
    ...(signal !== undefined && { signal }),
    ...(timeoutMs !== undefined && { timeout: timeoutMs }),
  }
}
