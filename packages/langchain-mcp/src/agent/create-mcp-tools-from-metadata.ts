import { mcpResourceFrom } from './agent-definition-schema.ts'
import type { McpResourceDefinition } from './agent-definition.ts'
import { buildTools, serverLabelFrom, type BuildToolsOptions } from '../catalogue/build-tools.ts'
import { discoverTools, isEnabled } from './discover-tools.ts'
import type { McpTool } from '../calls/mcp-tool.ts'
import { assertOptions, buildOptionChecks } from '../option-check.ts'
import { processWarnings } from '../tool-log.ts'
import type { McpToolSource } from '../catalogue/tool-source.ts'

/**
 * LangChain tools for one MCP resource of an agent, over a client that exists. The client stays the
 * caller's to dispose of. In cached mode nothing is requested; a disabled resource has no tools.
 *
 * @throws {AgentDefinitionError} if the resource is not valid
 * @throws {McpClientError} `CONFIG` for an option that is unknown or cannot be used
 */
export async function createMcpToolsFromMetadataForMcpServer(
  config: McpResourceDefinition,
  client: McpToolSource,
  options: BuildToolsOptions = {},
): Promise<McpTool[]> {
  assertOptions('createMcpToolsFromMetadataForMcpServer()', options, buildOptionChecks)
  const { log = processWarnings } = options
  const resource = mcpResourceFrom(config)
  if (!isEnabled(resource, log)) return []
  const discovery = await discoverTools(resource, client, log)
  return buildTools([{ ...discovery, server: serverLabelFrom(resource), source: client }], options)
}
