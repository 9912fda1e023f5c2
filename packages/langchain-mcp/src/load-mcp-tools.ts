import { check, isRecord, type Checks } from '@x/internal'
import type { LeftOutTool, McpClient } from '@x/mcp-client'
import { assertOptions, wrongValue } from './options.ts'
import { isSdkClient, toolSourceFrom, type SdkClient } from './sdk-client.ts'
import type { McpServerLabel, McpToolSource } from './tool-source.ts'
import {
  buildOptionChecks,
  buildTools,
  serverLabelFrom,
  type BuildToolsOptions,
} from './tools/build-tools.ts'
import type { McpTool } from './tools/mcp-tool.ts'

export interface LoadMcpToolsOptions extends BuildToolsOptions {
  /**
   * The server, for metadata, messages and names.
   * @default the name that an `McpClient` uses in errors, or that the server sent to an SDK client
   */
  readonly server?: McpServerLabel | undefined
}

const optionChecks: Checks<LoadMcpToolsOptions> = { ...buildOptionChecks, server: check.record }

/**
 * Returns LangChain tools for everything that a server lists now. The client may be an `McpClient` or a
 * connected `Client` of SDK v1 or v2. The caller closes it.
 *
 * @throws {McpClientError} `CONFIG` for a value that is not a client, and for an option that is unknown or
 * has a wrong value
 * @throws the client's error if it cannot list its tools
 * @example
 * ```ts
 * import { loadMcpTools } from '@x/langchain-mcp'
 * import { McpClient } from '@x/mcp-client'
 *
 * await using client = new McpClient('https://shop.example/mcp')
 * const tools = await loadMcpTools(client)
 * ```
 */
export async function loadMcpTools(
  client: McpToolSource | SdkClient,
  options: LoadMcpToolsOptions = {},
): Promise<McpTool[]> {
  if (!isRecord(client) || typeof client.listTools !== 'function') {
    throw wrongValue('client', 'a connected client, or an McpClient', client)
  }
  assertOptions('loadMcpTools()', options, optionChecks)
  const source = isSdkClient<SdkClient>(client) ? toolSourceFrom(client) : client
  const leftOut: LeftOutTool[] = []
  const definitions = await source.listTools({ onLeftOut: (tool) => leftOut.push(tool) })
  const server = serverLabelFrom(options.server ?? labelOf(client))
  return buildTools([{ server, source, definitions, leftOut }], options).tools
}

function labelOf(client: McpToolSource | SdkClient): McpServerLabel {
  if (isSdkClient<SdkClient>(client)) return { name: client.getServerVersion()?.name }
  if (!isMcpClient(client)) return {}
  const { serverSlug: slug } = client
  return slug === undefined ? { name: client.status().server } : { slug }
}

/** Goes by members, not by class: the client may come from another copy of the package. */
function isMcpClient(source: object): source is Pick<McpClient, 'serverSlug' | 'status'> {
  return 'serverSlug' in source && 'status' in source && typeof source.status === 'function'
}
