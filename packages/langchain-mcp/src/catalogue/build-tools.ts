import type { NamedResource } from '../argument-properties/resolve-property.ts'
import type { McpToolOptions } from '../calls/mcp-tool-options.ts'
import { McpTool } from '../calls/mcp-tool.ts'
import { assertRules } from '../option-check.ts'
import { schemaDefectOf } from '../schema/schema-defect.ts'
import { processWarnings, type ToolLog } from '../tool-log.ts'
import { toolPinsFrom } from '../calls/tool-hooks.ts'
import { nameTools, type OnNameCollision, type PrefixToolNames } from './tool-names.ts'
import { serverTitle, type McpServerLabel, type McpToolOrigin } from '../tool-origin.ts'
import { redefinedText, type ToolPins } from './tool-pins.ts'
import { isAllowed, type ToolRules } from './tool-rules.ts'
import type { McpToolSource, ToolDefinition } from './tool-source.ts'

/** How tools are made from what servers offer. */
export interface BuildToolsOptions extends McpToolOptions, ToolRules {
  /** What a tool gets whose name is taken by an earlier one. @default 'suffix' */
  readonly onNameCollision?: OnNameCollision | undefined
  /**
   * Put before the names of all tools of a server, with `_` between: `true` for the server's own name, or
   * what a function says of it. @default false
   */
  readonly prefixToolNames?: PrefixToolNames | undefined
  /**
   * Whether a definition is compared with the server's list before each call, and replaced if calls no
   * longer fit. @default true for stored definitions, unless the agent says otherwise; false for live ones
   */
  readonly refreshSchemaBeforeCall?: boolean | undefined
  /** Told of each tool that is left out because it cannot be used. The log is told as well. @default none */
  readonly onQuarantine?: ((tool: QuarantinedTool) => void) | undefined
  /** Told about disabled servers, missing tools and collisions. @default warnings of the Node process */
  readonly log?: ToolLog | undefined
}

/** A tool that the agent goes without, and why. */
export interface QuarantinedTool extends McpToolOrigin {
  readonly reason: string
}

/** A server's tools, found and not yet named. */
export interface DiscoveredServer {
  readonly server: McpServerLabel
  readonly source: McpToolSource
  readonly definitions: readonly ToolDefinition[]
  /** What an agent fixes of arguments, by the tool's own name. Never from the server. */
  readonly argumentProperties?: ReadonlyMap<string, Readonly<Record<string, unknown>>> | undefined
  /** Whether the definitions are stored ones. @default false */
  readonly refreshBeforeCall?: boolean | undefined
  /** The agent's resources, which argument properties may name. */
  readonly resources?: readonly NamedResource[] | undefined
  /** Whom the definitions were told, where callers are told apart. */
  readonly principal?: string | undefined
  /** Limit of one call, in milliseconds. @default that of the options */
  readonly timeoutMs?: number | undefined
}

/**
 * Tools for all servers at once, since their names have to differ; in the given order.
 *
 * @throws {McpClientError} `CONFIG` for a rule that can fit no tool
 * @throws {McpToolError} `NAME_COLLISION` where that is asked for
 */
export function buildTools(
  servers: readonly DiscoveredServer[],
  given: BuildToolsOptions,
): McpTool[] {
  assertRules(given)
  const { onNameCollision, prefixToolNames, log = processWarnings, onQuarantine } = given
  const pins = toolPinsFrom(given.pin)
  const options = { ...given, pin: pins }
  const found = servers.flatMap(({ definitions, ...from }) =>
    definitions
      .filter((definition) => isAllowed(options, from.server, definition))
      .filter((definition) => isAsPinned(pins, { ...from, definition, log }))
      .filter((definition) => isUsable({ ...from, definition, log, onQuarantine }))
      .map((definition) => ({ from, definition })),
  )
  const origins = found.map(({ from: { server }, definition }) => ({
    server,
    toolName: definition.name,
  }))
  const names = nameTools(origins, { onNameCollision, prefixToolNames, log })
  return found.map(({ from, definition }, index) => {
    const { server, source, resources, argumentProperties, timeoutMs = given.timeoutMs } = from
    return new McpTool({
      name: names[index] ?? definition.name,
      definition,
      server,
      source,
      options: timeoutMs === given.timeoutMs ? options : { ...options, timeoutMs },
      log,
      resources,
      refreshBeforeCall: given.refreshSchemaBeforeCall ?? from.refreshBeforeCall,
      argumentProperties: argumentProperties?.get(definition.name),
    })
  })
}

/** Leaves out one tool, and only that. */
function isUsable({
  server,
  definition,
  log,
  onQuarantine,
}: {
  readonly server: McpServerLabel
  readonly definition: ToolDefinition
  readonly log: ToolLog
  readonly onQuarantine: BuildToolsOptions['onQuarantine']
}): boolean {
  const { name: toolName } = definition
  const reason = unusableFor(definition)
  if (reason === undefined) return true
  log({
    level: 'warning',
    code: 'TOOL_QUARANTINED',
    message: `Tool "${toolName}" of MCP server "${serverTitle(server)}" is left out: ${reason}`,
    server: serverTitle(server),
    tool: toolName,
  })
  onQuarantine?.({ server, toolName, reason })
  return false
}

/** Why a tool would fail whenever a model calls it, or make a provider refuse all of them. */
function unusableFor({ execution, inputSchema }: ToolDefinition): string | undefined {
  if (execution?.taskSupport === 'required') {
    return 'it has to be called as a task, and tasks are not spoken here'
  }
  const defect = inputSchema === undefined ? undefined : schemaDefectOf(inputSchema)
  return defect === undefined ? undefined : `its schema cannot be used: ${defect}`
}

function isAsPinned(
  pins: ToolPins | undefined,
  {
    server,
    definition,
    principal,
    log,
  }: {
    readonly server: McpServerLabel
    readonly definition: ToolDefinition
    readonly principal?: string | undefined
    readonly log: ToolLog
  },
): boolean {
  const origin: McpToolOrigin = { server, toolName: definition.name }
  const changed = pins?.redefinition(origin, definition, principal)
  if (changed === undefined) return true
  log({
    level: 'warning',
    code: 'TOOL_REDEFINED',
    message: redefinedText(origin, changed),
    server: serverTitle(server),
    tool: definition.name,
  })
  return false
}

/** What of a resource or a label tells servers apart, and nothing else of it. */
export function serverLabelFrom({ slug, name, folderPath }: McpServerLabel): McpServerLabel {
  return { slug, name, folderPath }
}
