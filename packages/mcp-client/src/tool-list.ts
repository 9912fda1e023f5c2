import { isRecord, LEFT_OUT_META_KEY } from '@x/internal'
import { SchemaCheck } from '@x/internal/schema-check'
import { ToolSchema } from '@modelcontextprotocol/sdk/types.js'
import type { CallToolResult, Tool } from '@modelcontextprotocol/sdk/types.js'
import type { ClientEvents, McpClientEvents } from './events.ts'
import { McpClientError } from './errors.ts'
import { SingleFlight } from './single-flight.ts'

/** A tool of a server that cannot be used. The other tools of the list can. */
export interface LeftOutTool {
  /** Its name on the server, or its place in the list (`tool 3`). */
  readonly name: string
  readonly reason: string
}

/** All pages of a list. */
export interface ToolsRead {
  readonly tools: readonly Tool[]
  readonly leftOut: readonly LeftOutTool[]
  /** Time in which the list counts as current in the next process, in milliseconds. */
  readonly ttlMs: number
}

/**
 * Requests the list. Must call `onRequested` when it requests the first page, and again if it starts over: changes
 * that the server announced before that moment are part of the result.
 */
export type ReadTools = (onRequested: () => void, signal: AbortSignal) => Promise<ToolsRead>

/**
 * The tools of the server, cached until the server says that they changed. Concurrent callers share one request. If
 * a request fails, the old list stays.
 */
export class ToolList {
  readonly #events: ClientEvents
  #tools: readonly Tool[] | undefined
  /** Number of changes that the server has announced. */
  #changes = 0
  /** Value of `#changes` when the cached list was requested. */
  #asOf = -1
  #fetch: Fetch | undefined
  readonly #reads = new WeakMap<readonly Tool[], ToolsRead>()

  /** Emits `toolsChanged` when a new list differs from the one before. */
  constructor(events: ClientEvents) {
    this.#events = events
  }

  /** Number of tools in the last list. Undefined if there was none yet. */
  get size(): number | undefined {
    return this.#tools?.length
  }

  /** Tools that the server had in its last list, and that cannot be used. */
  get leftOut(): readonly LeftOutTool[] {
    return this.#tools === undefined ? [] : this.leftOutOf(this.#tools)
  }

  /** The same for a list that `get()` has returned. */
  leftOutOf(tools: readonly Tool[]): readonly LeftOutTool[] {
    return this.#reads.get(tools)?.leftOut ?? []
  }

  /** The last list with all that was read, unless the server has announced a change since. */
  get currentRead(): ToolsRead | undefined {
    return this.current && this.#reads.get(this.current)
  }

  /** Returns a tool of the last list, without a request. */
  find(name: string): Tool | undefined {
    return this.#tools?.find((tool) => tool.name === name)
  }

  /** True if the tool is in the last list, declared as read-only or idempotent. */
  isDeclaredIdempotent(name: string): boolean {
    const annotations = this.find(name)?.annotations
    return annotations?.readOnlyHint === true || annotations?.idempotentHint === true
  }

  /** The last list, unless the server has announced a change since. */
  get current(): readonly Tool[] | undefined {
    return this.#asOf === this.#changes ? this.#tools : undefined
  }

  async get(
    read: ReadTools,
    { forceRefresh, signal }: { readonly forceRefresh: boolean; readonly signal: AbortSignal },
  ): Promise<readonly Tool[]> {
    if (!forceRefresh && this.current !== undefined) return this.current
    // Joins a request only if its result will be recent enough: a refresh needs a request that starts after it.
    const { asOf } = this.#fetch ?? {}
    const isRecent = !forceRefresh && (asOf === undefined || asOf === this.#changes)
    const fetch = (this.#fetch =
      isRecent && this.#fetch !== undefined ? this.#fetch : { flight: new SingleFlight() })
    return fetch.flight.join((shared) => this.#refresh(fetch, read, shared), signal)
  }

  /** Marks the list as outdated: the server announced a change, or there is a new session. */
  invalidate(): void {
    this.#changes++
  }

  /** Removes the list. Callers that wait for a request reject with `reason`. */
  clear(reason: Error): void {
    this.#changes++
    this.#tools = undefined
    void this.#fetch?.flight.abort(reason)
    this.#fetch = undefined
  }

  async #refresh(fetch: Fetch, read: ReadTools, signal: AbortSignal): Promise<readonly Tool[]> {
    const onRequested = (): void => {
      fetch.asOf = this.#changes
    }
    try {
      const { tools: given, leftOut, ttlMs } = await read(onRequested, signal)
      const tools = frozen([...given])
      this.#reads.set(tools, { tools, leftOut: frozen([...leftOut]), ttlMs })
      // A request that was overtaken must not overwrite a newer list.
      if (this.#fetch === fetch) this.#keep(tools, fetch.asOf ?? this.#changes)
      return tools
    } finally {
      if (this.#fetch === fetch) this.#fetch = undefined
    }
  }

  #keep(tools: readonly Tool[], asOf: number): void {
    const before = this.#tools
    this.#tools = tools
    this.#asOf = asOf
    const changes = before === undefined ? undefined : changesBetween(before, tools)
    if (changes !== undefined) this.#events.emit('toolsChanged', changes)
  }
}

interface Fetch {
  readonly flight: SingleFlight<readonly Tool[]>
  asOf?: number
}

/** Several callers share the list, so none may change it. */
export function frozen<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value)
    for (const part of Object.values(value)) frozen(part)
  }
  return value
}

function changesBetween(
  before: readonly Tool[],
  after: readonly Tool[],
): McpClientEvents['toolsChanged'] | undefined {
  const old = new Map(before.map((tool) => [tool.name, JSON.stringify(tool)]))
  const now = new Map(after.map((tool) => [tool.name, JSON.stringify(tool)]))
  const added = [...now.keys()].filter((name) => !old.has(name))
  const removed = [...old.keys()].filter((name) => !now.has(name))
  const changed = [...now].filter(([name, tool]) => old.has(name) && old.get(name) !== tool)
  if (added.length + removed.length + changed.length === 0) return undefined
  return { added, removed, changed: changed.map(([name]) => name) }
}

/** One page of a list. */
export interface Page<Item> {
  readonly items: readonly Item[]
  readonly nextCursor: string | undefined
}

/** The limit that the SDK's client has as well. */
const MAX_PAGES = 64

/**
 * Reads all pages of a list, in order.
 *
 * @throws McpClientError `INVALID_LIST` if a cursor is repeated or there are more than 64 pages
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
    if (cursors.has(cursor)) throw endless(server, `returned the same cursor of ${method} twice`)
    cursors.add(cursor)
  } while (cursors.size < MAX_PAGES)
  throw endless(server, `returned more than ${MAX_PAGES} pages of ${method}`)
}

function endless(server: string, what: string): McpClientError {
  return new McpClientError('INVALID_LIST', `MCP server "${server}" ${what}`, { server })
}

/** The usable tools of a page, and why the others cannot be used. */
export interface ToolPage extends Page<Tool> {
  readonly leftOut: readonly LeftOutTool[]
  /** Time that the server declares the page current, in milliseconds (2026-07-28, server/utilities/caching). */
  readonly ttlMs: number | undefined
}

/**
 * Checks a result of `tools/list` tool by tool, so that one invalid definition does not make the others unusable.
 * Leaves out an output schema whose type is not `object`, which revision 2026-07-28 allows.
 *
 * @returns undefined for a result that is not a list of tools
 */
export function parseToolPage(result: Readonly<Record<string, unknown>>): ToolPage | undefined {
  const { tools, nextCursor, _meta: meta, ttlMs: ttl } = result
  if (!Array.isArray(tools)) return undefined
  if (nextCursor !== undefined && typeof nextCursor !== 'string') return undefined
  const items: Tool[] = []
  const leftOut: LeftOutTool[] = leftOutBefore(meta)
  for (const [index, value] of tools.entries()) {
    const tool = parseTool(value)
    if (typeof tool !== 'string') items.push(tool)
    else leftOut.push({ name: nameOf(value) ?? `tool ${index + 1}`, reason: tool })
  }
  const ttlMs = typeof ttl === 'number' && ttl >= 0 ? ttl : undefined
  return { items, nextCursor, leftOut, ttlMs }
}

/** Returns the tools that the transport has left out. */
function leftOutBefore(meta: unknown): LeftOutTool[] {
  const given: unknown = isRecord(meta) ? meta[LEFT_OUT_META_KEY] : undefined
  if (!Array.isArray(given)) return []
  return given.flatMap((value: unknown) => {
    const name = nameOf(value)
    return name === undefined || !isRecord(value) ? [] : [{ name, reason: String(value['reason']) }]
  })
}

function nameOf(value: unknown): string | undefined {
  const name = isRecord(value) ? value['name'] : undefined
  return typeof name === 'string' && name !== '' ? name : undefined
}

/** Returns the tool, or the reason why it is invalid. */
function parseTool(value: unknown): Tool | string {
  const parsed = ToolSchema.safeParse(value)
  if (parsed.success) return parsed.data
  const { issues } = parsed.error
  if (typeof value === 'object' && issues.every(({ path }) => path[0] === 'outputSchema')) {
    const rest = ToolSchema.safeParse({ ...value, outputSchema: undefined })
    if (rest.success) return rest.data
  }
  const [issue] = issues
  return `${issue?.path.join('.') ?? ''} ${issue?.message ?? 'is invalid'}`.trim()
}

const checks = new WeakMap<object, SchemaCheck>()

/** Returns true if a tool declares structured content, and a result has none, without being a failure of the tool. */
export function lacksStructure(tool: Tool, result: CallToolResult): boolean {
  const { isError, structuredContent } = result
  return tool.outputSchema !== undefined && isError !== true && structuredContent === undefined
}

/**
 * Checks structured content against the output schema of its tool (2025-06-18, server/tools, "Output Schema"). Returns
 * the problem, or undefined. Results with `isError` and tools with an unusable schema are not checked.
 */
export function outputProblem(tool: Tool, result: CallToolResult): string | undefined {
  const { outputSchema } = tool
  if (outputSchema === undefined || result.isError === true) return undefined
  if (result.structuredContent === undefined) return undefined
  let check = checks.get(outputSchema)
  if (check === undefined) {
    check = new SchemaCheck(outputSchema, { ignoreFormats: true })
    checks.set(outputSchema, check)
  }
  const errors = check.errors(result.structuredContent)
  return errors.length === 0 ? undefined : `does not fit its schema: ${errors.join('; ')}`
}
