import { win32 } from 'node:path'
import { check, isRecord, optionProblem } from '@x/internal'
import type { Check, Checks } from '@x/internal'
import type { RequestContext } from '@x/mcp-transport'
import { McpClientError } from './errors.ts'
import type { SecretSource } from './secret-source.ts'
import {
  checkFields,
  FieldError,
  parseArguments,
  parseCommand,
  parseEnvironment,
  parseFolder,
  parseHeaders,
  parseSecretEnvKeys,
  parseSecretHeaderKeys,
  parseUrl,
} from './server-fields.ts'
import type { SessionScope } from './session-scope.ts'

/** Names a server: by its slug or display name in a directory, by its URL, or by the command that starts it. */
export type McpServerConfig = SlugConfig | NameConfig | UrlConfig | CommandConfig

/** Server in the `directory` of the client, by its stable short name. */
export interface SlugConfig {
  readonly slug: string
  /** Folder of the server, if the directory has folders. @default that of the directory */
  readonly folderPath?: string | undefined
}

/** Server in the `directory` of the client, by its display name. */
export interface NameConfig {
  readonly name: string
  /** Folder of the server, if the directory has folders. @default that of the directory */
  readonly folderPath?: string | undefined
}

/** Server at a URL. */
export interface UrlConfig {
  /** Streamable HTTP endpoint. */
  readonly url: string | URL
  /** Sent with every request. A function is called before each request. @default none */
  readonly headers?: ScopedHeaders | undefined
  /** Names of more headers. The client's `secrets` option gives their values. @default none */
  readonly secretHeaderKeys?: readonly string[] | undefined
}

/** Server that is a program. It is started at the first call, and uses stdio. */
export interface CommandConfig {
  /** Name of a program in `PATH`, or a path. A relative path starts at `cwd`. */
  readonly command: string
  /** @default none */
  readonly args?: readonly string[] | undefined
  /** Added to the few variables that a child process inherits (`PATH`, `HOME` and others). @default none */
  readonly env?: Readonly<Record<string, string>> | undefined
  /** Names of more variables. The client's `secrets` option gives their values. @default none */
  readonly secretEnvKeys?: readonly string[] | undefined
  /** Folder in which the program runs: an absolute path. @default a private folder, see `StdioOptions` */
  readonly cwd?: string | undefined
}

/** Request that a header function is called for. */
export interface ScopedRequest extends RequestContext {
  /** Scope of the session that the request belongs to. */
  readonly scope: SessionScope | undefined
}

/** Headers, or a function that is called before every request, so that a rotated token is used at once. */
export type ScopedHeaders =
  | Readonly<Record<string, string>>
  | ((
      request: ScopedRequest,
    ) => Readonly<Record<string, string>> | Promise<Readonly<Record<string, string>>>)

const KINDS = ['slug', 'name', 'url', 'command'] as const

/**
 * Returns a copy of the config. A URL is short for `{ url }`.
 *
 * @throws McpClientError `CONFIG` unless the config has exactly one of slug, name, url and command
 */
export function parseServerConfig(config: McpServerConfig | string | URL): McpServerConfig {
  if (typeof config === 'string' || config instanceof URL) return parseServerConfig({ url: config })
  const problem = findKindProblem(config)
  if (problem === undefined) return { ...config }
  const message = `The config of an MCP server cannot be used: ${problem}`
  throw new McpClientError('CONFIG', message, { server: '(unnamed)', outcome: 'not-executed' })
}

function findKindProblem(config: unknown): string | undefined {
  if (!isRecord(config))
    return 'expected a URL, or an object with one of slug, name, url and command'
  const given = KINDS.filter((kind) => config[kind] !== undefined)
  const [only] = given
  if (given.length === 1 && only !== undefined && config[only] !== '') return undefined
  const what =
    only === undefined
      ? 'none of them is given'
      : given.length === 1
        ? `${only} is empty`
        : `${given.join(' and ')} are given`
  return `one of slug, name, url and command must be given: ${what}`
}

/** Name of the server in messages: its slug, its name, its URL without query, or the file name of its command. */
export function serverLabel(config: McpServerConfig): string {
  if (isSlugConfig(config)) return config.slug
  if (isNameConfig(config)) return config.name
  if (isCommandConfig(config)) return commandLabel(config.command)
  const { url } = config
  if (typeof url === 'string' && !URL.canParse(url)) return 'server with a malformed URL'
  const { origin, protocol, host, pathname } = new URL(url)
  return (origin === 'null' ? `${protocol}//${host}` : origin) + pathname
}

/** Name of a command in messages: without its folder, and without arguments, which may be secrets. */
export function commandLabel(command: string): string {
  return win32.basename(command) // accepts both kinds of slashes
}

/**
 * Checks all fields of a config.
 *
 * @throws McpClientError `CONFIG` that names a field that is unknown or invalid, or a secret without a source
 */
export function assertServerConfig(config: McpServerConfig, secrets?: SecretSource): void {
  const server = serverLabel(config)
  checkServer(server, () => {
    const given = Object.entries(config).filter(([, value]) => value !== undefined)
    const problem = optionProblem(Object.fromEntries(given), fieldsOf(config))
    if (problem !== undefined) throw new FieldError(problem.message)
    if (isCommandConfig(config)) parseServerCommand(config, secrets)
    else if ('url' in config) parseServerUrl('url', config, secrets)
  })
}

// `parseServerCommand` and `parseServerUrl` check the values of most fields.
const { anything } = check
const slugFields: Checks<SlugConfig> = { slug: check.text, folderPath: check.string }
const nameFields: Checks<NameConfig> = { name: check.text, folderPath: check.string }
const urlFields: Checks<UrlConfig> = {
  url: anything,
  headers: check.or(check.record, check.func),
  secretHeaderKeys: anything,
}
const commandFields: Checks<CommandConfig> = {
  command: anything,
  args: anything,
  env: anything,
  secretEnvKeys: anything,
  cwd: anything,
}

function fieldsOf(config: McpServerConfig): Readonly<Record<string, Check>> {
  if (isSlugConfig(config)) return slugFields
  if (isNameConfig(config)) return nameFields
  return isCommandConfig(config) ? commandFields : urlFields
}

/** Runs `parse`, and turns its `FieldError` into a `McpClientError` `CONFIG` that names the server. */
export function checkServer<T>(server: string, parse: () => T): T {
  return checkFields(parse, (cause) =>
    configError(server, `cannot be used: ${cause.message}`, { cause }),
  )
}

/** Creates the error for a server that cannot be used. Nothing was sent, and no program was started. */
export function configError(
  server: string,
  what: string,
  options: ErrorOptions = {},
): McpClientError {
  const message = `MCP server "${server}" ${what}`
  return new McpClientError('CONFIG', message, { ...options, server, outcome: 'not-executed' })
}

/** Program that is a server. */
export interface ServerCommand {
  readonly command: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly cwd: string | undefined
}

/** Checks the fields of a command, of a config or a directory. @throws FieldError */
export function parseServerCommand(
  { command, args = [], env = {}, cwd, secretEnvKeys = [] }: CommandConfig,
  secrets: SecretSource | undefined,
): ServerCommand {
  assertSecretSource('secretEnvKeys', parseSecretEnvKeys('secretEnvKeys', secretEnvKeys), secrets)
  return {
    command: parseCommand('command', command),
    args: parseArguments('args', args),
    env: parseEnvironment('env', env),
    cwd: cwd === undefined ? undefined : parseFolder('cwd', cwd),
  }
}

/** Checks the fields of a URL, of a config (`url`) or a directory (`mcpUrl`). @throws FieldError */
export function parseServerUrl(
  field: 'url' | 'mcpUrl',
  { url, headers = {}, secretHeaderKeys = [] }: UrlConfig,
  secrets: SecretSource | undefined,
): string {
  if (typeof headers !== 'function') parseHeaders('headers', headers)
  const keys = parseSecretHeaderKeys('secretHeaderKeys', secretHeaderKeys)
  assertSecretSource('secretHeaderKeys', keys, secrets)
  return parseUrl(field, url)
}

function assertSecretSource(
  field: string,
  keys: readonly string[],
  secrets: SecretSource | undefined,
): void {
  if (keys.length === 0 || secrets !== undefined) return
  throw new FieldError(`${field} needs the option "secrets", which gives their values`)
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
