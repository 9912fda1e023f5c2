import { win32 } from 'node:path'
import { assertOptions, check, isRecord, nearestWord } from '@x/internal'
import type { RequestContext } from '@x/mcp-transport'
import { notExecuted } from './errors.ts'
import type { McpClientError } from './errors.ts'
import { clientOptionChecks } from './options.ts'
import {
  commandFields,
  FieldError,
  parseFields,
  parseHeaders,
  parseHttpTransport,
  parseName,
  parseStdioTransport,
  parseText,
  parseUrl,
  urlFields,
} from './server-fields.ts'
import type { SessionScope } from './session-scope.ts'

/** Names a server: by its slug or display name in a directory, by its URL, or by the command that starts it. */
export type McpServerConfig = SlugConfig | NameConfig | UrlConfig | CommandConfig

/** Where a directory with folders looks for a server. */
export interface InFolder {
  /** Folder of the server, if the directory has folders. @default that of the directory */
  readonly folderPath?: string | undefined
}

/** Server in the `directory` of the client, by its stable short name. */
export interface SlugConfig extends InFolder {
  readonly slug: string
}

/** Server in the `directory` of the client, by its display name. */
export interface NameConfig extends InFolder {
  readonly name: string
}

/** Server at a URL. */
export interface UrlConfig {
  /** Streamable HTTP endpoint. */
  readonly url: string | URL
  /** Sent with every request. A function is called before each request. @default none */
  readonly headers?: ScopedHeaders | undefined
  // Strings, because TypeScript widens the words of an object in a variable. The parser checks them.
  /** `http` or `streamable_http`. Not needed: entries of `@langchain/mcp-adapters` have it. */
  readonly transport?: string | undefined
  /** `http` or `streamable-http`. Not needed: entries of desktop clients have it. */
  readonly type?: string | undefined
}

/** Server that is a program. It is started at the first call, and uses stdio. */
export interface CommandConfig {
  /** Name of a program in `PATH`, or a path. A relative path starts at `cwd`. */
  readonly command: string
  /** @default none */
  readonly args?: readonly string[] | undefined
  /** Added to the few variables that a child process inherits (`PATH`, `HOME` and others). @default none */
  readonly env?: Readonly<Record<string, string>> | undefined
  /** Folder in which the program runs: an absolute path. @default the folder of this process */
  readonly cwd?: string | undefined
  /** `stdio`. Not needed: entries of `@langchain/mcp-adapters` have it. */
  readonly transport?: string | undefined
  /** `stdio`. Not needed: entries of desktop clients have it. */
  readonly type?: string | undefined
}

/** Request that a header function is called for. */
export interface ScopedRequest extends RequestContext {
  /** Scope of the session that the request belongs to. */
  readonly scope: SessionScope | undefined
}

/**
 * Headers, or a function that is called before every request, so that a rotated token is used at once. A call that has
 * waited for a refused request of another call asks it too, and sends the request again if its own headers differ.
 */
export type ScopedHeaders =
  | Readonly<Record<string, string>>
  | ((
      request: ScopedRequest,
    ) => Readonly<Record<string, string>> | Promise<Readonly<Record<string, string>>>)

/** Parsers of the fields that each kind of config has. */
const FIELDS = {
  slug: { slug: parseName, folderPath: parseText },
  name: { name: parseName, folderPath: parseText },
  url: {
    ...urlFields,
    headers: parseScopedHeaders,
    transport: parseHttpTransport,
    type: parseHttpTransport,
  },
  command: { ...commandFields, transport: parseStdioTransport, type: parseStdioTransport },
} as const

type Kind = keyof typeof FIELDS
const KINDS: readonly Kind[] = ['slug', 'name', 'url', 'command']

/**
 * Checks all fields of a config, and returns a copy. A URL is short for `{ url }`.
 *
 * @throws McpClientError `CONFIG` unless the config has exactly one of slug, name, url and command; for a field that is
 * unknown or invalid
 */
export function parseServerConfig(config: McpServerConfig | string | URL): McpServerConfig {
  if (typeof config === 'string' || config instanceof URL) return parseServerConfig({ url: config })
  const problem = findKindProblem(config)
  if (problem !== undefined) {
    const message = `The config of an MCP server cannot be used: ${problem}`
    throw notExecuted('CONFIG', message, { server: '(unnamed)' })
  }
  checkServer(serverLabel(config), () => {
    const given = Object.fromEntries(
      Object.entries(config).filter(([, value]) => value !== undefined),
    )
    const [kind = 'url'] = KINDS.filter((each) => given[each] !== undefined)
    const known = Object.keys(FIELDS[kind]).map((name) => [name, check.anything] as const)
    const misplaced = Object.keys(given).find((name) => Object.hasOwn(clientOptionChecks, name))
    if (misplaced !== undefined) {
      // A number is the `timeout` of other clients.
      const option =
        typeof given[misplaced] === 'number' && misplaced === 'timeout' ? 'timeoutMs' : misplaced
      throw new FieldError(
        `"${misplaced}" is not part of the config of a server. Use the option "${option}" of the client: new McpClient({ ${kind} }, { ${option} }), or createMcpTools({ servers, ${option} })`,
      )
    }
    assertOptions(({ message }) => new FieldError(message), given, Object.fromEntries(known))
    parseFields<Record<string, unknown>>(FIELDS[kind], given)
  })
  return { ...config }
}

function findKindProblem(config: unknown): string | undefined {
  if (!isRecord(config))
    return 'expected a URL, or an object with one of slug, name, url and command'
  const [only, ...others] = KINDS.filter((kind) => config[kind] !== undefined)
  if (only !== undefined && others.length === 0 && config[only] !== '') return undefined
  const what =
    only === undefined
      ? `none of them is given${nearestKind(config)}`
      : others.length === 0
        ? `${only} is empty`
        : `${[only, ...others].join(' and ')} are given`
  return `one of slug, name, url and command must be given: ${what}`
}

/** `{ uri }` means `{ url }`. */
function nearestKind(config: object): string {
  for (const key of Object.keys(config)) {
    const nearest = nearestWord(key, KINDS)
    if (nearest !== undefined) return `. Did you mean "${nearest}" by "${key}"?`
  }
  return ''
}

/** Name of the server in messages: its slug, its name, its URL without query, or the file name of its command. */
export function serverLabel(config: McpServerConfig): string {
  if (isSlugConfig(config)) return config.slug
  if (isNameConfig(config)) return config.name
  // Arguments may be secrets. `win32` accepts both kinds of slashes.
  if (isCommandConfig(config)) return win32.basename(config.command)
  const { url } = config
  if (typeof url === 'string' && !URL.canParse(url)) return 'server with a malformed URL'
  const { origin, protocol, host, pathname } = new URL(url)
  return (origin === 'null' ? `${protocol}//${host}` : origin) + pathname
}

function parseScopedHeaders(field: string, value: unknown): unknown {
  if (typeof value === 'function') return value
  if (isRecord(value)) return parseHeaders(field, value)
  throw new FieldError(`${field} must be an object with string values, or a function`)
}

/** Runs `parse`, and turns its `FieldError` into a `McpClientError` `CONFIG` that names the server. */
export function checkServer<T>(server: string, parse: () => T): T {
  try {
    return parse()
  } catch (error) {
    throw toConfigError(error, server)
  }
}

/** The same for an error. Others stay as they are. */
export function toConfigError(cause: unknown, server: string): unknown {
  if (!(cause instanceof FieldError)) return cause
  return configError(server, `cannot be used: ${cause.message}`, { cause })
}

/** Creates the error for a server that cannot be used. */
export function configError(
  server: string,
  what: string,
  options: ErrorOptions = {},
): McpClientError {
  return notExecuted('CONFIG', `MCP server "${server}" ${what}`, { ...options, server })
}

/** Program that is a server. */
export interface ServerCommand {
  readonly command: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly cwd: string | undefined
}

/** Checks the fields of a command, of a config or a directory. @throws FieldError */
export function parseServerCommand(config: CommandConfig): ServerCommand {
  const fields = parseFields(commandFields, { ...config })
  const { command = config.command, args = [], env = {}, cwd } = fields
  return { command, args, env, cwd }
}

/** Checks the fields of a server at a URL that a config or a directory gives. @throws FieldError */
export function parseServerUrl({ url, ...others }: UrlConfig): string {
  parseFields(FIELDS.url, others)
  return parseUrl('mcpUrl', url)
}

export function isSlugConfig(config: McpServerConfig): config is SlugConfig {
  return 'slug' in config && config.slug !== undefined
}

export function isNameConfig(config: McpServerConfig): config is NameConfig {
  return 'name' in config && config.name !== undefined
}

export function isCommandConfig(config: McpServerConfig): config is CommandConfig {
  return 'command' in config && config.command !== undefined
}
