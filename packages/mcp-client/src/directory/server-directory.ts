import { isRecord } from '@x/internal'
import type { AuthProvider, Dispatcher } from '@x/mcp-transport'
import { notExecuted } from '../errors.ts'
import type { CommandConfig, InFolder } from '../server-config.ts'

/** A server as a directory describes it. Directories differ, so every field is optional; unknown fields are kept. */
export interface McpServer extends Partial<ServerFields>, InFolder, Pick<CommandConfig, 'cwd'> {
  readonly [key: string]: unknown
}

interface ServerFields {
  readonly id: string | undefined
  /** Display name, for people. */
  readonly name: string | undefined
  /** Stable short name, for machines. */
  readonly slug: string | undefined
  readonly description: string | undefined
  readonly version: string | undefined
  readonly folderKey: string | undefined
  /** Streamable HTTP endpoint. If it is set, `command` is ignored. */
  readonly mcpUrl: string | null | undefined
  /** Sent with every request to the server. The client's own `headers` override them. */
  readonly headers: Readonly<Record<string, string>> | undefined
  /**
   * Gets the tokens for this server. Used if the client has no `authProvider` and the server has no
   * `authorization` header. A response from the network cannot set it.
   */
  readonly authProvider: AuthProvider | undefined
  /** Program to start, for a server on stdio. */
  readonly command: string | undefined
  readonly arguments: readonly string[] | undefined
  /** Added to the few variables that a child process inherits. */
  readonly environmentVariables: Readonly<Record<string, string>> | undefined
}

/** Names the server to look up: by exactly one of `slug` and `name`, and by folder if the directory has folders. */
export interface McpServerQuery extends Partial<Pick<ServerFields, 'slug' | 'name'>>, InFolder {
  readonly signal?: AbortSignal | undefined
  /** Dispatcher of the client, if it was given one. For directories that use HTTP. */
  readonly dispatcher?: Dispatcher | undefined
}

/** Finds servers by slug or name. A client uses it at its first call, never earlier. */
export interface McpServerDirectory {
  /** @throws McpClientError `NOT_FOUND` if the server is unknown, `CONFIG` unless the query has one of slug and name */
  retrieve(query: McpServerQuery): Promise<McpServer>
}

/**
 * Directory made from a map. The keys are slugs; each value is a URL or a description of the server.
 *
 * @example
 * ```ts
 * import { McpClient, StaticServerDirectory } from '@x/mcp-client'
 *
 * const directory = new StaticServerDirectory({ shop: 'https://shop.example/mcp' })
 * const client = new McpClient({ slug: 'shop' }, { directory })
 * ```
 */
export class StaticServerDirectory implements McpServerDirectory {
  readonly #servers: ReadonlyMap<string, McpServer>

  /** @throws McpClientError `CONFIG` unless `servers` is a map of URLs and servers */
  constructor(servers: Readonly<Record<string, string | McpServer>>) {
    if (!isRecord(servers) || !Object.values(servers).every(isServer)) {
      const what = 'expected a map from slug to URL, or to a server such as { mcpUrl }'
      throw notExecuted('CONFIG', `StaticServerDirectory: ${what}`, { server: '(unnamed)' })
    }
    this.#servers = new Map(
      Object.entries(servers).map(([slug, server]) => [
        slug,
        typeof server === 'string' ? { slug, mcpUrl: server } : { slug, ...server },
      ]),
    )
  }

  async retrieve(query: McpServerQuery): Promise<McpServer> {
    const wanted = getIdentifier(query)
    const server =
      this.#servers.get(wanted) ??
      [...this.#servers.values()].find((candidate) => candidate.name === wanted)
    if (server !== undefined) return server
    throw notExecuted('NOT_FOUND', unknownServer(wanted, this.#servers.keys()), { server: wanted })
  }
}

function isServer(value: unknown): boolean {
  return typeof value === 'string' || isRecord(value)
}

/** Message for a server that the directory does not have. Lists the servers that it has. */
export function unknownServer(wanted: string, known: Iterable<string>): string {
  const names = [...known].join(', ')
  return `No MCP server "${wanted}": use one of the known servers (${names === '' ? 'none' : names})`
}

/**
 * Returns the slug or the name in a query.
 *
 * @throws McpClientError `CONFIG` unless exactly one of them is given
 */
export function getIdentifier({ slug, name }: McpServerQuery): string {
  const given = [slug, name].filter((part) => part !== undefined)
  const [identifier = ''] = given
  if (given.length === 1 && identifier !== '') return identifier
  const what = given.length === 2 ? 'both are given' : 'neither is given'
  throw notExecuted('CONFIG', `A server is looked up by either slug or name: ${what}`, {
    server: identifier === '' ? '(unnamed)' : identifier,
  })
}
