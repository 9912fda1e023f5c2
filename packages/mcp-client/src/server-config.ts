import { check, isRecord, optionProblem } from '@x/internal'
import type { Check, Checks } from '@x/internal'
import {
  parseArguments,
  parseCommand,
  parseEnvironment,
  FieldError,
  parseHeaders,
  parseSecretEnvKeys,
  parseSecretHeaderKeys,
  parseFolder,
  parseUrl,
} from './server-fields.ts'
import { McpClientError } from './mcp-client-error.ts'
import type { ScopedHeaders } from './scoped-headers.ts'
import type { SecretSource } from './secret-source.ts'
import { win32 } from 'node:path'

/** Which server to use: by its slug or display name in a directory, by its URL, or by the command that starts it. */
export type McpServerConfig = SlugConfig | NameConfig | UrlConfig | CommandConfig

/** A server that the client's `directory` knows by a stable short name. */
export interface SlugConfig {
  readonly slug: string
  /** Where the directory has folders: the one to look in. @default that of the directory */
  readonly folderPath?: string | undefined
}

/** A server that the client's `directory` knows by its display name. */
export interface NameConfig {
  readonly name: string
  /** Where the directory has folders: the one to look in. @default that of the directory */
  readonly folderPath?: string | undefined
}

/** A server at an address. */
export interface UrlConfig {
  /** The Streamable HTTP endpoint. */
  readonly url: string | URL
  /** Sent with every request; a function is asked before each one. @default none */
  readonly headers?: ScopedHeaders | undefined
  /** Names of further headers, whose values the client's `secrets` gives. @default none */
  readonly secretHeaderKeys?: readonly string[] | undefined
}

/** A server that is a program: it is started at the first call, and spoken to over stdio. */
export interface CommandConfig {
  /** A name that is found in `PATH`, or a path; a relative one begins at `cwd`. */
  readonly command: string
  /** @default none */
  readonly args?: readonly string[] | undefined
  /** Added to the little that a child inherits (`PATH`, `HOME` and the like). @default nothing */
  readonly env?: Readonly<Record<string, string>> | undefined
  /** Names of further variables, whose values the client's `secrets` gives. @default none */
  readonly secretEnvKeys?: readonly string[] | undefined
  /** Where it runs: an absolute path. @default a private folder, see `StdioOptions` */
  readonly cwd?: string | undefined
}

/**
 * A copy of the config; a URL is short for `{ url }`.
 *
 * @throws McpClientError `CONFIG` for a mixture of fields that name a server, for none, and for anything else
 */
export function serverConfigFrom(config: McpServerConfig | string | URL): McpServerConfig {
  if (typeof config === 'string' || config instanceof URL) return serverConfigFrom({ url: config })
  if (!isRecord(config)) {
    throw configError('expected a URL, or an object with one of slug, name, url and command')
  }
  assertOneServer(config)
  return { ...config }
}

/** How messages name the server: its slug, its name, its URL without query, or the file name of its command. */
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
 * @throws McpClientError `CONFIG` that names the field: for one that is unknown or cannot be used, and for
 * secrets whose values nothing gives
 */
export function assertServerConfig(config: McpServerConfig, secrets?: SecretSource): void {
  try {
    assertFields(config)
    if (isSlugConfig(config) || isNameConfig(config)) return
    if (isCommandConfig(config)) assertCommand(config)
    else assertUrl(config)
    assertSecretSource(config, secrets)
  } catch (cause) {
    if (!(cause instanceof FieldError)) throw cause
    const server = serverLabel(config)
    const message = `MCP server "${server}" cannot be used: ${cause.message}`
    throw new McpClientError('CONFIG', message, { server, outcome: 'not-executed', cause })
  }
}

// The values of most fields are checked below, with errors of their own.
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

/** @throws FieldError for a field that servers of this kind do not have */
function assertFields(config: McpServerConfig): void {
  const given = Object.entries(config).filter(([, value]) => value !== undefined)
  const problem = optionProblem(Object.fromEntries(given), fieldsOf(config))
  if (problem !== undefined) throw new FieldError(problem.message)
}

function fieldsOf(config: McpServerConfig): Readonly<Record<string, Check>> {
  if (isSlugConfig(config)) return slugFields
  if (isNameConfig(config)) return nameFields
  return isCommandConfig(config) ? commandFields : urlFields
}

/** @throws FieldError for names of secrets without anything that gives their values */
export function assertSecretSource(
  server: {
    readonly secretHeaderKeys?: readonly string[] | undefined
    readonly secretEnvKeys?: readonly string[] | undefined
  },
  secrets: SecretSource | undefined,
): void {
  if (secrets !== undefined) return
  for (const field of ['secretHeaderKeys', 'secretEnvKeys'] as const) {
    if ((server[field]?.length ?? 0) === 0) continue
    throw new FieldError(`${field} needs the option "secrets", which gives their values`)
  }
}

function assertUrl({ url, headers, secretHeaderKeys }: UrlConfig): void {
  parseUrl('url', url)
  if (typeof headers === 'object') parseHeaders('headers', headers)
  if (secretHeaderKeys !== undefined) parseSecretHeaderKeys('secretHeaderKeys', secretHeaderKeys)
}

function assertCommand({ command, args, env, cwd, secretEnvKeys }: CommandConfig): void {
  if (secretEnvKeys !== undefined) parseSecretEnvKeys('secretEnvKeys', secretEnvKeys)
  parseCommand('command', command)
  if (args !== undefined) parseArguments('args', args)
  if (env !== undefined) parseEnvironment('env', env)
  if (cwd !== undefined) parseFolder('cwd', cwd)
}

function assertOneServer(config: McpServerConfig): void {
  const given = FIELDS.filter((key) => valueOf(config, key) !== undefined)
  const [only = 'slug'] = given
  if (given.length === 1 && valueOf(config, only) !== '') return
  const what =
    given.length === 0
      ? 'none of them is given'
      : given.length === 1
        ? `${only} is empty`
        : `${given.join(' and ')} are given`
  throw configError(`one of slug, name, url and command must be given: ${what}`)
}

function configError(what: string): McpClientError {
  return new McpClientError('CONFIG', `The config of an MCP server cannot be used: ${what}`, {
    server: '(unnamed)',
    outcome: 'not-executed',
  })
}

export function isSlugConfig(config: McpServerConfig): config is SlugConfig {
  return valueOf(config, 'slug') !== undefined
}

export function isNameConfig(config: McpServerConfig): config is NameConfig {
  return valueOf(config, 'name') !== undefined
}

export function isCommandConfig(config: McpServerConfig): config is CommandConfig {
  return valueOf(config, 'command') !== undefined
}

const FIELDS = ['slug', 'name', 'url', 'command'] as const

/** A field that is there and undefined counts as not given. */
function valueOf(config: object, key: (typeof FIELDS)[number]): unknown {
  return key in config ? Reflect.get(config, key) : undefined
}
