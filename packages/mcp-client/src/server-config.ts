import type { HeadersOption } from '@x/mcp-transport'
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
  if ('slug' in config) return config.slug
  if ('name' in config) return config.name
  const { url } = config
  if (typeof url === 'string' && !URL.canParse(url)) return 'server with a malformed URL'
  const { origin, pathname } = new URL(url)
  return origin + pathname
}

/** @throws McpClientError `CONFIG` that names the fields, for a mixture of them or for none. */
export function assertServerConfig(config: McpServerConfig): void {
  const given = ['slug', 'name', 'url'].filter((key) => Object.hasOwn(config, key))
  if (given.length === 1) return
  const what = given.length === 0 ? 'none of them is' : `${given.join(' and ')} are`
  throw new McpClientError('CONFIG', `A server is named by slug, name or url: ${what} given`, {
    server: '(unnamed)',
  })
}
