import { McpClientError } from '../mcp-client-error.ts'

/** One page of a list. */
export interface Page<Item> {
  readonly items: readonly Item[]
  readonly nextCursor?: string | undefined
}

/** As the SDK's own client and others have it. */
const MAX_PAGES = 64

/**
 * Every page of a list, in order.
 *
 * @throws McpClientError `INVALID_LIST` for a cursor that comes twice, or too many pages.
 */
export async function allPages<Item>(
  { server, method }: { readonly server: string; readonly method: string },
  readPage: (cursor: string | undefined) => Promise<Page<Item>>,
): Promise<readonly Item[]> {
  const all: Item[] = []
  const cursors = new Set<string>()
  let cursor: string | undefined
  do {
    const { items, nextCursor } = await readPage(cursor)
    all.push(...items)
    cursor = nextCursor
    if (cursor === undefined) return all
    if (cursors.has(cursor)) throw endless(server, `gave the same cursor of ${method} twice`)
    cursors.add(cursor)
  } while (cursors.size < MAX_PAGES)
  throw endless(server, `answers ${method} on more than ${MAX_PAGES} pages`)
}

export interface ListRequest {
  readonly method: string
  readonly params?: { cursor: string }
}

export function listRequest(method: string, cursor: string | undefined): ListRequest {
  return cursor === undefined ? { method } : { method, params: { cursor } }
}

function endless(server: string, what: string): McpClientError {
  return new McpClientError('INVALID_LIST', `MCP server "${server}" ${what}`, { server })
}
