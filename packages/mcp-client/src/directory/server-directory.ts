import { isRecord } from '@x/internal'
import type { Dispatcher } from '@x/mcp-transport'
import { identifierOf, lookupError } from './lookup-error.ts'
import type { McpServer } from './mcp-server.ts'

/** What a client looks a server up by: exactly one of `slug` and `name`, and a folder where there are some. */
export interface McpServerQuery {
  readonly slug?: string | undefined
  readonly name?: string | undefined
  readonly folderPath?: string | undefined
  readonly signal?: AbortSignal | undefined
  /** The dispatcher that the client was given, for directories that are asked over HTTP. */
  readonly dispatcher?: Dispatcher | undefined
}

/** Knows servers by slug or name. Asked at the first call of a client, never before. */
export interface McpServerDirectory {
  /** @throws McpClientError `NOT_FOUND` if there is no such server, `CONFIG` for a query with both of slug and name, or none. */
  retrieve(query: McpServerQuery): Promise<McpServer>
}

/** A directory that is a map: from slug to URL, or to what is known about the server. */
export class StaticServerDirectory implements McpServerDirectory {
  readonly #servers: ReadonlyMap<string, McpServer>

  /** @throws McpClientError `CONFIG` for what is not a map of URLs and servers. */
  constructor(servers: Readonly<Record<string, string | McpServer>>) {
    if (!isRecord(servers) || !Object.values(servers).every(isServer)) {
      const what = 'expected a map from slug to URL, or to a server such as { mcpUrl }'
      throw lookupError('CONFIG', `StaticServerDirectory: ${what}`, { server: '(unnamed)' })
    }
    this.#servers = new Map(
      Object.entries(servers).map(([slug, server]) => [
        slug,
        typeof server === 'string' ? { slug, mcpUrl: server } : { slug, ...server },
      ]),
    )
  }

  async retrieve(query: McpServerQuery): Promise<McpServer> {
    const wanted = identifierOf(query)
    const server =
      this.#servers.get(wanted) ??
      [...this.#servers.values()].find((candidate) => candidate.name === wanted)
    if (server !== undefined) return server
    const known = [...this.#servers.keys()].join(', ')
    throw lookupError(
      'NOT_FOUND',
      `No MCP server "${wanted}"; there are: ${known === '' ? 'none' : known}`,
      { server: wanted },
    )
  }
}

function isServer(value: unknown): boolean {
  return typeof value === 'string' || isRecord(value)
}
