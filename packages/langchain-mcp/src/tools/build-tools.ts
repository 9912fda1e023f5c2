import { check, isRecord, type Checks } from '@x/internal'
import type { LeftOutTool } from '@x/mcp-client'
import { processWarnings, type ToolLog } from '../log.ts'
import { isAppOnly } from '../mcp-apps.ts'
import { wordOrFunction } from '../options.ts'
import {
  serverTitle,
  type McpServerLabel,
  type McpToolOrigin,
  type QuarantinedTool,
  type ToolDefinition,
} from '../tool-source.ts'
import { schemaDefectOf } from './json-schema.ts'
import { redefinedText, ToolPins } from './interceptors.ts'
import { McpTool, type McpToolFields, type McpToolOptions } from './mcp-tool.ts'
import type { FixedArguments } from './tool-binding.ts'
import { nameTools } from './tool-names.ts'

/** A tool in the list of a server. `origin.toolName` is its name there. */
type ListedTool = Pick<McpTool, 'origin' | 'definition'>

/** How tools are made from the lists of servers. */
export interface BuildToolsOptions extends McpToolOptions {
  /** The tools that are offered: their names on the server, or a function. An empty list allows none. @default all */
  readonly allow?: readonly string[] | ((tool: ListedTool) => boolean) | undefined
  /** Puts the name of its server and `_` before the name of each tool. @default false */
  readonly prefixToolNames?: boolean | undefined
  /** Receives warnings about disabled servers, missing tools and name collisions. @default warnings of the Node process */
  readonly log?: ToolLog | undefined
}

export const buildOptionChecks: Checks<BuildToolsOptions> = {
  allow: {
    ...check.or(check.listOf(check.text), check.func),
    takes: 'a list of names, or a function',
  },
  elicitation: {
    takes: 'what elicitationToInterrupt() returns, or false',
    accepts: (value) => value === false || (isRecord(value) && 'handlers' in value),
  },
  input: check.func,
  interceptors: check.listOf(check.func),
  log: check.func,
  maxMediaBytes: check.number(),
  maxTextCharacters: check.number(),
  onToolError: wordOrFunction('message', 'throw'),
  pin: check.or(check.oneOf('first-use'), {
    ...check.record,
    takes: 'what pinnedToolsFrom() returns',
  }),
  prefixToolNames: check.flag,
  schemaFor: wordOrFunction('common', 'openai', 'anthropic', 'google', 'none'),
  taskMode: check.oneOf('wait', 'interrupt'),
  timeoutMs: check.number(),
}

/** A server with its tool definitions, before the tools get their names. */
export interface DiscoveredServer extends Pick<McpToolFields, 'server' | 'source'> {
  readonly definitions: readonly ToolDefinition[]
  /** Tools that the client has left out. @default none */
  readonly leftOut?: readonly LeftOutTool[] | undefined
  /** The definitions are those that an earlier process has read. @default false */
  readonly isStored?: boolean | undefined
  /** Stored fields, if the server belongs to an agent definition. */
  readonly stored?: Pick<McpToolFields, 'refreshBeforeCall'> & {
    /** Arguments that the agent definition fixes, by tool name. Never from the server. */
    readonly fixed: ReadonlyMap<string, FixedArguments>
  }
  /** Principal that listed the definitions, if there are principals. */
  readonly principal?: string | undefined
  /** Limit of one call, in milliseconds. @default `timeoutMs` of the options */
  readonly timeoutMs?: number | undefined
}

/**
 * Makes the tools of all servers, in the given order, without those that only an app may call. All servers are needed
 * at once, because the names of their tools must differ. `pins` are those of earlier lists, if there are any.
 */
export function buildTools(
  servers: readonly DiscoveredServer[],
  options: BuildToolsOptions,
  pins: ToolPins | undefined = options.pin && new ToolPins(options.pin),
): { readonly tools: McpTool[]; readonly quarantined: readonly QuarantinedTool[] } {
  const { log = processWarnings, allow, prefixToolNames = false } = options
  const isAllowed =
    typeof allow === 'function'
      ? allow
      : ({ origin }: ListedTool) => allow === undefined || allow.includes(origin.toolName)
  const quarantined: QuarantinedTool[] = []
  const leaveOut = (origin: McpToolOrigin, reason: string): void => {
    const server = serverTitle(origin.server)
    const tool = origin.toolName
    const message = `Tool "${tool}" of MCP server "${server}" is left out: ${reason}`
    log({ level: 'warning', code: 'TOOL_QUARANTINED', message, server, tool })
    quarantined.push({ ...origin, reason })
  }
  for (const { server, leftOut = [] } of servers) {
    for (const { name, reason } of leftOut) {
      // A function cannot judge a tool without a definition.
      if (Array.isArray(allow) && !allow.includes(name)) continue
      leaveOut({ server, toolName: name }, reason)
    }
  }
  const found = servers
    .flatMap((from) =>
      from.definitions.map((definition) => {
        const origin: McpToolOrigin = { server: from.server, toolName: definition.name }
        return { from, definition, origin }
      }),
    )
    .filter(({ from, definition, origin }) => {
      const server = serverTitle(from.server)
      if (isAppOnly(definition)) {
        const tool = definition.name
        const message = `Tool "${tool}" of MCP server "${server}" is for apps only: the model does not get it`
        log({ level: 'info', code: 'TOOL_FOR_APPS', message, server, tool })
        return false
      }
      if (!isAllowed({ origin, definition })) return false
      const about = { level: 'warning', server, tool: definition.name } as const
      const changed = pins?.redefinition(origin, definition, from.principal)
      if (changed !== undefined) {
        log({ ...about, code: 'TOOL_REDEFINED', message: redefinedText(origin, changed) })
        quarantined.push({ ...origin, reason: changed })
        return false
      }
      const reason = unusableReason(definition)
      if (reason === undefined) return true
      leaveOut(origin, reason)
      return false
    })
  const origins = found.map(({ origin }) => origin)
  const names = nameTools(origins, prefixToolNames, log)
  const tools = found.map(({ from, definition }, index) => {
    const { server, source, stored, isStored = false, timeoutMs = options.timeoutMs } = from
    return new McpTool({
      name: names[index] ?? definition.name,
      definition,
      server,
      source,
      options: timeoutMs === options.timeoutMs ? options : { ...options, timeoutMs },
      log,
      pins,
      isStored,
      refreshBeforeCall: stored?.refreshBeforeCall ?? false,
      fixed: stored?.fixed.get(definition.name),
    })
  })
  return { tools, quarantined }
}

/** Returns why every call of a tool would fail, or why a provider would refuse all tools because of it. */
function unusableReason({ inputSchema }: ToolDefinition): string | undefined {
  const defect = inputSchema === undefined ? undefined : schemaDefectOf(inputSchema)
  return defect === undefined ? undefined : `its schema cannot be used: ${defect}`
}

/** Returns only the fields that identify a server. */
export function serverLabelFrom({ slug, name, folderPath }: McpServerLabel): McpServerLabel {
  return { slug, name, folderPath }
}
