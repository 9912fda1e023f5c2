import type { Tool } from '@modelcontextprotocol/sdk/types.js'
import { McpClientError } from './mcp-client-error.ts'
import { SingleFlight } from './single-flight.ts'

export interface ToolPage {
  readonly tools: readonly Tool[]
  readonly nextCursor?: string | undefined
}

export interface ToolChanges {
  readonly added: readonly string[]
  readonly removed: readonly string[]
  readonly changed: readonly string[]
}

/** As the SDK's own client and others have it. */
const MAX_PAGES = 64

/**
 * The server's tools, kept until it says that they changed. One fetch serves all who ask meanwhile; a
 * fetch that fails leaves the old list.
 */
export class ToolList {
  readonly #fetch: (signal: AbortSignal) => Promise<readonly Tool[]>
  readonly #onChange: (changes: ToolChanges) => void
  #flight = new SingleFlight<readonly Tool[]>()
  #tools: readonly Tool[] | undefined
  #isStale = true
  /** Counts fetches: one that was overtaken must not overwrite what came later. */
  #fetches = 0

  constructor(
    fetch: (signal: AbortSignal) => Promise<readonly Tool[]>,
    onChange: (changes: ToolChanges) => void,
  ) {
    this.#fetch = fetch
    this.#onChange = onChange
  }

  /** What is known now; nothing is asked. */
  find(name: string): Tool | undefined {
    return this.#tools?.find((tool) => tool.name === name)
  }

  async get(options: { forceRefresh: boolean; signal: AbortSignal }): Promise<readonly Tool[]> {
    const { forceRefresh, signal } = options
    if (!forceRefresh && !this.#isStale && this.#tools !== undefined) return this.#tools
    // A refresh must see what is true after it was asked for: a fetch under way is not good enough.
    if (forceRefresh) this.#flight = new SingleFlight()
    return this.#flight.join((shared) => this.#refresh(shared), signal)
  }

  /** The server said that the list changed, or there is a new session. */
  invalidate(): void {
    this.#isStale = true
  }

  clear(): void {
    this.#fetches++
    this.#tools = undefined
    this.#isStale = true
  }

  async #refresh(signal: AbortSignal): Promise<readonly Tool[]> {
    this.#isStale = false // before asking: a change during the fetch makes it stale again
    const fetch = ++this.#fetches
    const before = this.#tools
    try {
      const tools = (await this.#fetch(signal)).map((tool) => Object.freeze(tool))
      if (fetch !== this.#fetches) return tools
      this.#tools = tools
      const changes = before === undefined ? undefined : changesBetween(before, tools)
      if (changes !== undefined) this.#onChange(changes)
      return tools
    } catch (error) {
      if (fetch === this.#fetches) this.#isStale = true
      throw error
    }
  }
}

/** Every page of a list. @throws McpClientError `INVALID_LIST` for a cursor that comes twice, or too many pages. */
export async function allPages(
  server: string,
  readPage: (cursor: string | undefined) => Promise<ToolPage>,
): Promise<readonly Tool[]> {
  const tools: Tool[] = []
  const cursors = new Set<string>()
  let cursor: string | undefined
  do {
    const page = await readPage(cursor)
    tools.push(...page.tools)
    cursor = page.nextCursor
    if (cursor === undefined) return tools
    if (cursors.has(cursor)) {
      throw new McpClientError('INVALID_LIST', `${server} gave the same tools/list cursor twice`, {
        server,
      })
    }
    cursors.add(cursor)
  } while (cursors.size < MAX_PAGES)
  throw new McpClientError(
    'INVALID_LIST',
    `${server} lists its tools on more than ${MAX_PAGES} pages`,
    { server },
  )
}

function changesBetween(before: readonly Tool[], after: readonly Tool[]): ToolChanges | undefined {
  const old = new Map(before.map((tool) => [tool.name, JSON.stringify(tool)]))
  const now = new Map(after.map((tool) => [tool.name, JSON.stringify(tool)]))
  const added = [...now.keys()].filter((name) => !old.has(name))
  const removed = [...old.keys()].filter((name) => !now.has(name))
  const changed = [...now].filter(([name, tool]) => old.has(name) && old.get(name) !== tool)
  if (added.length + removed.length + changed.length === 0) return undefined
  return { added, removed, changed: changed.map(([name]) => name) }
}
