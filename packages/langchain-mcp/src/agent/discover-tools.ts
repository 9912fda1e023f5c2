import {
  discoveryModeOf,
  type AgentToolDefinition,
  type McpResourceDefinition,
} from './agent-definition.ts'
import type { DiscoveredServer } from '../catalogue/build-tools.ts'
import type { ToolLog } from '../tool-log.ts'
import { serverTitle } from '../tool-origin.ts'
import type { McpToolSource, ToolDefinition } from '../catalogue/tool-source.ts'

/** What one server offers an agent, by its resource. */
export type Discovery = Pick<
  DiscoveredServer,
  'definitions' | 'argumentProperties' | 'refreshBeforeCall'
>

/**
 * The tools of one server, as its resource wants them found. Cached: the snapshot, without a request.
 * Dynamic: one list of the server, in its order; unless all tools are allowed, only those of the
 * snapshot, with one warning for each that the server does not have. What the snapshot fixes of arguments
 * goes with the tool of that name in any mode.
 */
export async function discoverTools(
  resource: McpResourceDefinition,
  source: McpToolSource,
  log: ToolLog,
): Promise<Discovery> {
  const server = serverTitle(resource)
  if (resource.dynamicTools !== undefined && resource.dynamicTools !== 'none') {
    log({
      level: 'warning',
      code: 'DEPRECATED',
      message: `MCP server "${server}": "dynamicTools" is deprecated, use "toolsConfiguration.discoveryMode"`,
      server,
    })
  }
  const mode = discoveryModeOf(resource)
  const snapshot = resource.availableTools ?? []
  const argumentProperties = new Map(
    snapshot.map((tool) => [tool.name, tool.argumentProperties ?? {}]),
  )
  if (mode.type === 'cached') {
    const definitions = snapshot.map(definitionOf)
    const refreshBeforeCall = mode.refreshSchemaBeforeCall ?? true
    return { definitions, argumentProperties, refreshBeforeCall }
  }
  const live = await source.listTools()
  if (mode.allowAll === true) return { definitions: live, argumentProperties }
  const liveNames = new Set(live.map((tool) => tool.name))
  for (const { name } of snapshot) {
    if (liveNames.has(name)) continue
    log({
      level: 'warning',
      code: 'TOOL_MISSING',
      message: `MCP server "${server}" has no tool "${name}", which the agent names: the agent goes without it`,
      server,
      tool: name,
    })
  }
  const wanted = new Set(snapshot.map((tool) => tool.name))
  return { definitions: live.filter((tool) => wanted.has(tool.name)), argumentProperties }
}

/** What is fixed of the arguments may be secret, and is no part of what a tool tells of itself. */
function definitionOf(tool: AgentToolDefinition): ToolDefinition {
  const { argumentProperties: _, ...definition } = tool
  return definition
}

/** Whether a resource takes part; says so if not. */
export function isEnabled(resource: McpResourceDefinition, log: ToolLog): boolean {
  if (resource.isEnabled !== false) return true
  const server = serverTitle(resource)
  log({
    level: 'info',
    code: 'SERVER_DISABLED',
    message: `MCP server "${server}" is disabled: no tools, no client`,
    server,
  })
  return false
}
