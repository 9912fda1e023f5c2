import { McpClientError, SessionInfoFactory } from '@x/mcp-client'
import { isRecord } from './is-record.ts'
import type { McpServerLabel } from './tool-origin.ts'
import { isOfServer, type ToolRules } from './catalogue/tool-rules.ts'

/** What is looked at: all that would else protect or tell apart nothing where it is misspelt. */
interface CheckedOptions {
  readonly approve?: unknown
  readonly onNameCollision?: unknown
  readonly onServerError?: unknown
  readonly onToolError?: unknown
  readonly pin?: unknown
  readonly session?: unknown
}

interface Rule {
  readonly words: readonly string[]
  readonly isOther?: (value: unknown) => boolean
  readonly other?: string
}

const isFunction = (value: unknown): boolean => typeof value === 'function'

const RULES: Readonly<Record<keyof CheckedOptions, Rule>> = {
  approve: { words: ['destructive'], isOther: isFunction, other: 'a function' },
  onNameCollision: { words: ['suffix', 'prefix-server', 'throw'] },
  onServerError: { words: ['skip', 'throw'], isOther: isFunction, other: 'a function' },
  onToolError: { words: ['message', 'throw'], isOther: isFunction, other: 'a function' },
  pin: { words: ['first-use'], isOther: isRecord, other: 'what pinnedToolsFrom() gives' },
  session: {
    words: ['run', 'thread', 'shared'],
    isOther: (value) => value instanceof SessionInfoFactory || hasCreateSession(value),
    other: 'a SessionInfoFactory',
  },
}

/**
 * Refuses options that say nothing we know. The compiler does so as well; settings that come from a file,
 * or from JavaScript, do not pass it.
 *
 * @throws {McpClientError} `CONFIG`, naming the option and what it takes
 */
export function assertOptions(options: CheckedOptions): void {
  for (const [name, { words, isOther, other }] of Object.entries(RULES)) {
    const value: unknown = Object.entries(options).find(([key]) => key === name)?.[1]
    if (value === undefined || words.some((word) => word === value) || isOther?.(value) === true) {
      continue
    }
    const takes = [...words.map((word) => `'${word}'`), ...(other === undefined ? [] : [other])]
    throw misfit(name, takes.join(' or '), value)
  }
}

/** @throws {McpClientError} `CONFIG` for what is no set of servers by name */
export function assertServers(servers: unknown): void {
  if (!isRecord(servers)) throw misfit('servers', '{ [name]: config }', servers)
  for (const [name, config] of Object.entries(servers)) {
    if (!isRecord(config)) throw misfit(`servers.${name}`, 'an object like { url }', config)
  }
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
  throw new McpClientError('CONFIG', message, { server: 'all', outcome: 'not-executed' })
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
  const given = shown(value)
  return new McpClientError('CONFIG', `${place}: expected ${takes}, got ${given}`, {
    server: 'all',
    outcome: 'not-executed',
  })
}

function shown(value: unknown): string {
  if (typeof value === 'string') return `"${value}"`
  if (value instanceof RegExp) return String(value)
  return value === null ? 'null' : typeof value
}

/** One of another copy of the package. */
function hasCreateSession(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'createSession' in value
}
