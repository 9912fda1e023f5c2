import type { HeadersOption } from '@x/mcp-transport'
import { FieldError, headersFrom, urlFrom } from './directory/server-fields.ts'
import { McpClientError } from './mcp-client-error.ts'

/** Which server to use: by its slug or display name in a directory, or by its URL. */
export type McpServerConfig = SlugConfig | NameConfig | UrlConfig

export interface SlugConfig {
  readonly slug: string
  readonly folderPath?: string | undefined
}

export interface NameConfig {
  readonly name: string
  readonly folderPath?: string | undefined
}

export interface UrlConfig {
  /** The Streamable HTTP endpoint. */
  readonly url: string | URL
  /** Sent with every request; a function is asked before each one. */
  readonly headers?: HeadersOption | undefined
}

/** How messages name the server: its slug, its name, or its URL without query. */
export function serverLabel(config: McpServerConfig): string {
  if (isSlugConfig(config)) return config.slug
  if (isNameConfig(config)) return config.name
  const { url } = config
  if (typeof url === 'string' && !URL.canParse(url)) return 'server with a malformed URL'
  const { origin, protocol, host, pathname } = new URL(url)
  return (origin === 'null' ? `${protocol}//${host}` : origin) + pathname
}

/**
 * @throws McpClientError `CONFIG` that names the fields: for a mixture of them, for none, and for a URL or
 * headers that cannot be used
 */
export function assertServerConfig(config: McpServerConfig): void {
  assertOneServer(config)
  if (isSlugConfig(config) || isNameConfig(config)) return
  try {
    urlFrom('url', config.url)
    if (typeof config.headers === 'object') headersFrom('headers', config.headers)
  } catch (cause) {
    if (!(cause instanceof FieldError)) throw cause
    const server = serverLabel(config)
    const message = `MCP server "${server}" cannot be used: ${cause.message}`
    throw new McpClientError('CONFIG', message, { server, outcome: 'not-executed', cause })
  }
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
  throw new McpClientError('CONFIG', `A server is named by one of slug, name and url: ${what}`, {
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

const FIELDS = ['slug', 'name', 'url'] as const

/** A field that is there and undefined counts as not given. */
function valueOf(config: object, key: (typeof FIELDS)[number]): unknown {
  return key in config ? Reflect.get(config, key) : undefined
}
