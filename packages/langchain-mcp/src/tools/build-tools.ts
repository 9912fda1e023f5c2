import { check, isRecord } from '@x/internal'
import type { Checks } from '@x/internal'
import { processWarnings, type ToolLog } from '../base/log.ts'
import { wordOrFunction, wrongValue } from '../base/options.ts'
import {
  serverTitle,
  type McpServerLabel,
  type McpToolOrigin,
  type ToolDefinition,
} from '../base/tool-source.ts'
import { schemaDefectOf } from '../schema/json-schema.ts'
import { redefinedText, toolPinsFrom } from './interceptors.ts'
import { McpTool, type McpToolFields, type McpToolOptions } from './mcp-tool.ts'
import { nameTools, type NameToolsOptions } from './tool-names.ts'

/** How tools are made from the lists of servers. */
export interface BuildToolsOptions extends McpToolOptions, ToolRules, NameToolsOptions {
  /**
   * Compares a definition with the server's list before each call, and replaces it if calls no longer fit.
   * @default true for stored definitions, unless the agent says otherwise; false for live ones
   */
  readonly refreshSchemaBeforeCall?: boolean | undefined
  /** Called for each tool that is left out because it cannot be used. The log receives an entry too. @default none */
  readonly onQuarantine?: ((tool: QuarantinedTool) => void) | undefined
  /** Receives warnings about disabled servers, missing tools and name collisions. @default warnings of the Node process */
  readonly log?: ToolLog | undefined
}

export const buildOptionChecks: Checks<BuildToolsOptions> = {
  // assertRules() checks the rules, because it knows the servers.
  allow: check.anything,
  deny: check.anything,
  elicitation: {
    takes: 'what elicitationToInterrupt() returns, or false',
    accepts: (value) => value === false || (isRecord(value) && 'handlers' in value),
  },
  input: check.func,
  interceptors: check.listOf(check.func),
  log: check.func,
  maxMediaBytes: check.number(),
  maxTextCharacters: check.number(),
  mock: check.func,
  onNameCollision: check.oneOf('suffix', 'prefix-server', 'throw'),
  onQuarantine: check.func,
  onToolError: wordOrFunction('message', 'throw'),
  output: check.oneOf('auto', 'blocks'),
  pin: check.or(check.oneOf('first-use'), {
    ...check.record,
    takes: 'what pinnedToolsFrom() returns',
  }),
  prefixToolNames: check.or(check.flag, check.func),
  projection: wordOrFunction('common', 'openai', 'anthropic', 'google', 'none'),
  refreshSchemaBeforeCall: check.flag,
  showToModel: check.listOf(check.oneOf('structuredContent', '_meta')),
  taskMode: check.oneOf('wait', 'interrupt'),
  tellSessionReplaced: check.flag,
  timeoutMs: check.number(),
}

/** A tool that is left out, with the reason. */
export interface QuarantinedTool extends McpToolOrigin {
  readonly reason: string
}

/** A server with its tool definitions, before the tools get their names. */
export interface DiscoveredServer extends Pick<
  McpToolFields,
  'server' | 'source' | 'refreshBeforeCall' | 'resources'
> {
  readonly definitions: readonly ToolDefinition[]
  /** Arguments that the agent definition fixes, by tool name. Never from the server. */
  readonly argumentProperties?: ReadonlyMap<string, Readonly<Record<string, unknown>>> | undefined
  /** Principal that listed the definitions, if there are principals. */
  readonly principal?: string | undefined
  /** Limit of one call, in milliseconds. @default `timeoutMs` of the options */
  readonly timeoutMs?: number | undefined
}

/**
 * Makes the tools of all servers, in the given order. All servers are needed at once, because the names of
 * their tools must differ.
 *
 * @throws {McpClientError} `CONFIG` for a rule with a wrong shape
 * @throws {McpToolError} `NAME_COLLISION` with `onNameCollision: 'throw'`
 */
export function buildTools(
  servers: readonly DiscoveredServer[],
  given: BuildToolsOptions,
): McpTool[] {
  assertRules(given)
  const { log = processWarnings, onQuarantine } = given
  const pins = toolPinsFrom(given.pin)
  const options = { ...given, pin: pins }
  const found = servers
    .flatMap((from) =>
      from.definitions.map((definition) => {
        const origin: McpToolOrigin = { server: from.server, toolName: definition.name }
        return { from, definition, origin }
      }),
    )
    .filter(({ from, definition, origin }) => {
      if (!isAllowed(options, from.server, definition)) return false
      const server = serverTitle(from.server)
      const about = { level: 'warning', server, tool: definition.name } as const
      const changed = pins?.redefinition(origin, definition, from.principal)
      if (changed !== undefined) {
        log({ ...about, code: 'TOOL_REDEFINED', message: redefinedText(origin, changed) })
        return false
      }
      const reason = unusableReason(definition)
      if (reason === undefined) return true
      const message = `Tool "${definition.name}" of MCP server "${server}" is left out: ${reason}`
      log({ ...about, code: 'TOOL_QUARANTINED', message })
      onQuarantine?.({ ...origin, reason })
      return false
    })
  const origins = found.map(({ origin }) => origin)
  const names = nameTools(origins, given, log)
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

/** Returns why every call of a tool would fail, or why a provider would refuse all tools because of it. */
function unusableReason({ inputSchema }: ToolDefinition): string | undefined {
  const defect = inputSchema === undefined ? undefined : schemaDefectOf(inputSchema)
  return defect === undefined ? undefined : `its schema cannot be used: ${defect}`
}

/**
 * Selects tools by server (its slug or its name) and by the name on the server. In a string, `*` matches any
 * text. A regular expression may match a part of the name. A rule without a server is for all servers; a
 * rule without a tool is for all tools of the server.
 */
export type ToolRule =
  | string
  | RegExp
  | { readonly server: string | RegExp; readonly tool?: string | RegExp | undefined }

/** Which tools are offered. A tool that matches both lists is left out. */
export interface ToolRules {
  /** Only these tools. An empty list allows none. @default all */
  readonly allow?: readonly ToolRule[] | undefined
  /** Not these tools. @default none */
  readonly deny?: readonly ToolRule[] | undefined
}

/**
 * Throws for rules that cannot match any tool: a deny list with a misspelt server would protect nothing.
 *
 * @param servers all servers that the rules can name; left out where they are unknown
 * @throws {McpClientError} `CONFIG` that names the rule and the servers
 */
export function assertRules({ allow, deny }: ToolRules, servers?: readonly McpServerLabel[]): void {
  for (const [list, rules] of Object.entries({ allow, deny })) {
    if (rules === undefined) continue
    if (!Array.isArray(rules)) throw wrongValue(list, 'a list', rules)
    for (const [index, rule] of rules.entries()) {
      const place = `${list}[${index}]`
      if (isPattern(rule)) continue
      if (!isRecord(rule)) throw wrongValue(place, `${PATTERN}, or { server, tool }`, rule)
      const { server, tool } = rule
      if (!isPattern(server)) throw wrongValue(`${place}.server`, PATTERN, server)
      if (tool !== undefined && !isPattern(tool)) throw wrongValue(`${place}.tool`, PATTERN, tool)
      if (servers?.some((one) => matchesServer(server, one)) === false) {
        throw wrongValue(`${place}.server`, `one of ${namesOf(servers)}`, server)
      }
    }
  }
}

const PATTERN = 'a name, with * for any text, or a regular expression'

function isPattern(value: unknown): value is string | RegExp {
  return typeof value === 'string' || value instanceof RegExp
}

function namesOf(servers: readonly McpServerLabel[]): string {
  const names = new Set(servers.flatMap(({ slug, name }) => [slug, name]))
  names.delete(undefined)
  return names.size === 0 ? 'no server at all' : Array.from(names, (name) => `"${name}"`).join(', ')
}

function isAllowed(
  { allow, deny = [] }: ToolRules,
  label: McpServerLabel,
  { name }: ToolDefinition,
): boolean {
  const matches = (rule: ToolRule): boolean => {
    if (isPattern(rule)) return matchesName(rule, name)
    const { server, tool } = rule
    return matchesServer(server, label) && (tool === undefined || matchesName(tool, name))
  }
  return !deny.some(matches) && (allow === undefined || allow.some(matches))
}

function matchesServer(pattern: string | RegExp, { slug, name }: McpServerLabel): boolean {
  return [slug, name].some((one) => one !== undefined && matchesName(pattern, one))
}

function matchesName(pattern: string | RegExp, name: string): boolean {
  // search() always starts at the beginning; test() of a global expression continues at `lastIndex`.
  if (pattern instanceof RegExp) return name.search(pattern) !== -1
  const [start = '', ...others] = pattern.split('*')
  const end = others.pop()
  if (end === undefined) return name === start
  if (!name.startsWith(start) || !name.endsWith(end)) return false
  // Leftmost matches suffice, and the time stays linear whatever name a server sends.
  let position = start.length
  for (const part of others) {
    const found = name.indexOf(part, position)
    if (found === -1) return false
    position = found + part.length
  }
  return position + end.length <= name.length
}

/** Returns only the fields that identify a server. */
export function serverLabelFrom({ slug, name, folderPath }: McpServerLabel): McpServerLabel {
  return { slug, name, folderPath }
}
