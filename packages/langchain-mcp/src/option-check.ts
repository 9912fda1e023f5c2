import { check, isRecord, optionProblem } from '@x/internal'
import type { Check, Checks } from '@x/internal'
import { clientOptionChecks, McpClientError } from '@x/mcp-client'
import type { McpClientOptions } from '@x/mcp-client'
import type {
  CreateMcpToolsWithOptions,
  McpToolClient,
} from './agent/create-mcp-tools-from-agent.ts'
import type { McpToolsServerConfig } from './calls/run-headers.ts'
import type { BuildToolsOptions } from './catalogue/build-tools.ts'
import type { CreateMcpToolsOptions } from './mcp-tools.ts'
import type { McpServerLabel } from './tool-origin.ts'
import { isOfServer, type ToolRules } from './catalogue/tool-rules.ts'

const orFunc = (...words: readonly string[]): Check => check.or(check.oneOf(...words), check.func)

const onServerError = orFunc('skip', 'throw')

export const buildOptionChecks: Checks<BuildToolsOptions> = {
  // Rules are checked by assertRules(), which knows the servers.
  allow: check.anything,
  deny: check.anything,
  approve: orFunc('destructive'),
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
  onToolError: orFunc('message', 'throw'),
  output: check.oneOf('auto', 'blocks'),
  pin: check.or(check.oneOf('first-use'), {
    ...check.record,
    takes: 'what pinnedToolsFrom() returns',
  }),
  prefixToolNames: check.or(check.flag, check.func),
  projection: orFunc('common', 'openai', 'anthropic', 'google', 'none'),
  refreshSchemaBeforeCall: check.flag,
  showToModel: check.listOf(check.oneOf('structuredContent', '_meta')),
  tellSessionReplaced: check.flag,
  timeoutMs: check.number(),
}

export const agentOptionChecks: Checks<CreateMcpToolsWithOptions<McpToolClient>> = {
  ...clientOptionChecks,
  ...buildOptionChecks,
  createClient: check.func,
  onServerError,
}

const { scope: _scope, around: _around, ...oneClientChecks } = clientOptionChecks

export const createOptionChecks: Checks<CreateMcpToolsOptions> = {
  ...oneClientChecks,
  ...buildOptionChecks,
  servers: check.anything, // checked by serversFrom()
  session: check.or(check.oneOf('run', 'thread', 'shared'), {
    ...check.methods('createSession'),
    takes: 'a SessionInfoFactory',
  }),
  principal: check.func,
  onServerError,
  listMaxAgeMs: check.number(),
}

/**
 * Refuses options that are unknown or have a wrong value. The compiler does so as well, but it does not see
 * options that come from a file or from JavaScript.
 *
 * @param owner the function that takes the options
 * @throws {McpClientError} `CONFIG` that names the option and what it takes
 */
export function assertOptions(
  owner: string,
  options: unknown,
  checks: Readonly<Record<string, Check>>,
): void {
  const problem = optionProblem(options, checks)
  if (problem !== undefined) throw configError(`${owner}: ${problem.message}`)
}

/** Returns the options that a client takes, out of options for tools and clients. */
export function clientOptionsFrom(options: BuildToolsOptions & McpClientOptions): McpClientOptions {
  const own = Object.entries(options).filter(([name]) => Object.hasOwn(clientOptionChecks, name))
  return Object.fromEntries(own)
}

/**
 * Returns the servers by name; a URL is short for `{ url }`.
 *
 * @throws {McpClientError} `CONFIG` for anything else than servers by name
 */
export function serversFrom(
  servers: CreateMcpToolsOptions['servers'],
): Readonly<Record<string, McpToolsServerConfig>> {
  if (!isRecord(servers)) throw misfit('servers', '{ [name]: config }', servers)
  const entries = Object.entries(servers).map(([name, config]) => {
    if (typeof config === 'string' || config instanceof URL) return [name, { url: config }] as const
    if (!isRecord(config))
      throw misfit(`servers.${name}`, 'a URL, or an object like { url }', config)
    return [name, config] as const
  })
  return Object.fromEntries(entries)
}

/**
 * Refuses one provider of tokens for several servers, unless all of them are at one origin: its token would
 * reach all of them. Servers with a provider of their own do not count, and programs have no use for one.
 *
 * @throws {McpClientError} `CONFIG`
 */
export function assertOneOrigin(authProvider: unknown, servers: readonly object[]): void {
  if (typeof authProvider !== 'object' || authProvider === null) return
  const users = servers
    .map((server) => new Map<string, unknown>(Object.entries(server)))
    .filter((server) => server.get('authProvider') === undefined && !server.has('command'))
  const origins = new Set(users.map((server) => URL.parse(String(server.get('url')))?.origin))
  if (users.length < 2 || (origins.size === 1 && !origins.has(undefined))) return
  const message =
    'authProvider: one provider cannot be used for several servers, unless the URLs of all of them have the same origin, because its token would reach each of them. Give each entry an `authProvider` of its own, or a function: authProvider: (server) => provider'
  throw configError(message)
}

/** @throws {McpClientError} `CONFIG` for what nothing can be asked of: a URL, or a client that was not made */
export function assertToolSource(client: unknown): void {
  if (isRecord(client) && typeof client['listTools'] === 'function') return
  throw misfit('client', 'a connected client, or an McpClient', client)
}

/**
 * Refuses rules that can fit no tool, because a deny list with a misspelt server would protect nothing.
 *
 * @param servers all that the rules may be about; left out where they are not known
 * @throws {McpClientError} `CONFIG`, naming the rule and the servers there are
 */
export function assertRules({ allow, deny }: ToolRules, servers?: readonly McpServerLabel[]): void {
  for (const [list, rules] of Object.entries({ allow, deny })) {
    if (rules === undefined) continue
    if (!Array.isArray(rules)) throw misfit(list, 'a list', rules)
    for (const [index, rule] of rules.entries()) {
      const place = `${list}[${index}]`
      if (isPattern(rule)) continue
      if (!isRecord(rule)) throw misfit(place, PATTERN_OR_RULE, rule)
      const { server, tool } = rule
      if (!isPattern(server)) throw misfit(`${place}.server`, PATTERN, server)
      if (tool !== undefined && !isPattern(tool)) throw misfit(`${place}.tool`, PATTERN, tool)
      if (servers?.some((one) => isOfServer(server, one)) === false) {
        throw misfit(`${place}.server`, `one of ${titlesOf(servers)}`, server)
      }
    }
  }
}

const PATTERN = 'a name, with * for any text, or a regular expression'
const PATTERN_OR_RULE = `${PATTERN}, or { server, tool }`

function isPattern(value: unknown): value is string | RegExp {
  return typeof value === 'string' || value instanceof RegExp
}

function titlesOf(servers: readonly McpServerLabel[]): string {
  const names = servers.flatMap(({ slug, name }) => [slug, name])
  const known = [...new Set(names)].filter((name) => name !== undefined)
  return known.length === 0 ? 'no server at all' : known.map((name) => `"${name}"`).join(', ')
}

function misfit(place: string, takes: string, value: unknown): McpClientError {
  return configError(`${place}: expected ${takes}, got ${shown(value)}`)
}

function configError(message: string): McpClientError {
  return new McpClientError('CONFIG', message, { server: 'all', outcome: 'not-executed' })
}

function shown(value: unknown): string {
  if (typeof value === 'string') return `"${value}"`
  if (value instanceof RegExp) return String(value)
  return value === null ? 'null' : typeof value
}
