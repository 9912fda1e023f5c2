import { check } from '@x/internal'
import type { Checks } from '@x/internal'
import type { McpClient } from '@x/mcp-client'
import { buildTools, serverLabelFrom, type BuildToolsOptions } from './catalogue/build-tools.ts'
import type { McpTool } from './calls/mcp-tool.ts'
import { assertOptions, assertToolSource, buildOptionChecks } from './option-check.ts'
import { isSdkClient, toolSourceFrom, type SdkClient } from './catalogue/sdk-client-source.ts'
import type { McpServerLabel } from './tool-origin.ts'
import type { McpToolSource } from './catalogue/tool-source.ts'

export interface LoadMcpToolsOptions extends BuildToolsOptions {
  /**
   * Which server it is, for metadata, messages and names.
   * @default as an `McpClient` names it in errors; the name that the server told to an SDK client
   */
  readonly server?: McpServerLabel | undefined
}

const optionChecks: Checks<LoadMcpToolsOptions> = { ...buildOptionChecks, server: check.record }

/**
 * LangChain tools for all that a server lists now, from any connected client: ours, or the `Client` of
 * SDK v1 or v2. The client stays the caller's to close.
 *
 * @throws {McpClientError} `CONFIG` for what is no client, or an option that says nothing we know
 * @throws what the client throws if it cannot list its tools
 */
export async function loadMcpTools(
  client: McpToolSource | SdkClient,
  options: LoadMcpToolsOptions = {},
): Promise<McpTool[]> {
  assertToolSource(client)
  assertOptions('loadMcpTools()', options, optionChecks)
  const source = isSdkClient(client) ? toolSourceFrom(client) : client
  const definitions = await source.listTools()
  const server = options.server ?? labelOf(client)
  return buildTools([{ server: serverLabelFrom(server), source, definitions }], options)
}

function labelOf(client: McpToolSource | SdkClient): McpServerLabel {
  if (isSdkClient(client)) return { name: client.getServerVersion()?.name }
  if (!isMcpClient(client)) return {}
  const { serverSlug: slug } = client
  return slug === undefined ? { name: client.status().server } : { slug }
}

/** By its members, not by its class: it may come from another copy of the package. */
function isMcpClient(source: object): source is Pick<McpClient, 'serverSlug' | 'status'> {
  return 'serverSlug' in source && 'status' in source && typeof source.status === 'function'
}
