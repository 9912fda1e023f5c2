import { McpTool, type McpToolOptions } from './mcp-tool.ts'
import { processWarnings, type ToolLog } from './tool-log.ts'
import { nameTools, type OnNameCollision } from './tool-names.ts'
import type { McpServerLabel } from './tool-origin.ts'
import type { McpToolSource, ToolDefinition } from './tool-source.ts'

/** How tools are made from what servers offer. */
export interface BuildToolsOptions extends McpToolOptions {
  /** What a tool gets whose name is taken by an earlier one. @default 'suffix' */
  readonly onNameCollision?: OnNameCollision | undefined
  /** Told about disabled servers, missing tools and collisions. @default warnings of the Node process */
  readonly log?: ToolLog | undefined
}

/** A server's tools, found and not yet named. */
export interface DiscoveredServer {
  readonly server: McpServerLabel
  readonly source: McpToolSource
  readonly definitions: readonly ToolDefinition[]
}

/** Tools for all servers at once, since their names have to differ; in the given order. */
export function buildTools(
  servers: readonly DiscoveredServer[],
  options: BuildToolsOptions,
): McpTool[] {
  const { onNameCollision, log = processWarnings } = options
  const found = servers.flatMap(({ server, source, definitions }) =>
    definitions.map((definition) => ({ server, source, definition })),
  )
  const origins = found.map(({ server, definition }) => ({ server, toolName: definition.name }))
  const names = nameTools(origins, { onNameCollision, log })
  return found.map(
    (tool, index) => new McpTool({ ...tool, name: names[index] ?? tool.definition.name, options }),
  )
}

/** What of a resource or a label tells servers apart, and nothing else of it. */
export function serverLabelFrom({ slug, name, folderPath }: McpServerLabel): McpServerLabel {
  return { slug, name, folderPath }
}
