import { isRecord, LEFT_OUT_META_KEY, untilAborted } from '@x/internal'
import { ToolSchema } from '@modelcontextprotocol/sdk/types.js'
import type { Tool } from '@modelcontextprotocol/sdk/types.js'
import { Deadline } from './deadline.ts'
import { McpClientError, toOperationError, toResponse } from './errors.ts'
import type { Lease, Operation, Operations, RequestPage } from './operation.ts'
import type { CallOptions } from './options.ts'
import { readResult } from './requests.ts'
import type { ResultSchema } from './requests.ts'
import type { ScopeSlot } from './scope-slot.ts'
import type { LeftOutTool, ToolsRead } from './tool-list.ts'

/** Time in which a list of a server with sessions counts as current in the next process, in milliseconds. */
const LIST_MS = 300_000

const LIST = { method: 'tools/list' } as const

/** JSON-RPC code that a server without tools answers `tools/list` with. */
const METHOD_NOT_FOUND = -32_601

/** A list of the server: its request, and where its items are in the result. */
interface ListOf<Key extends string, Item> {
  readonly method: string
  readonly schema: ResultSchema<
    Readonly<Record<Key, readonly Item[]>> & { readonly nextCursor?: string | undefined }
  >
  readonly key: Key
}

/** Reads all pages of a list, with one time limit. */
export function readList<Key extends string, Item>(
  operations: Operations,
  { method, schema, key }: ListOf<Key, Item>,
  options: CallOptions,
): Promise<readonly Item[]> {
  const list = { server: operations.server, method }
  const operation: Operation<readonly Item[]> = {
    method,
    isSafe: true,
    readList: (requestPage) =>
      allPages(list, async (cursor) => {
        const page = readResult(schema, await requestPage(cursor))
        return { items: page[key], nextCursor: page.nextCursor }
      }),
  }
  return operations.request(operation, options)
}

/** Options of `listTools()`. */
export interface ListToolsOptions extends Omit<CallOptions, 'headers'> {
  /**
   * Also accepts the list that an earlier process has stored with its session, until this client has read its own: `true`
   * while it counts as current, for the `ttlMs` of the server, or 5 minutes on a server with sessions; `'first-call'` for
   * a minute more at the start, so that a new process can send its first call first. @default false
   */
  readonly acceptStored?: boolean | 'first-call' | undefined
  /** Requests the list also if it is cached. @default false */
  readonly forceRefresh?: boolean | undefined
  /** Receives each tool that cannot be used. @default they are warnings in the event `log` */
  readonly onLeftOut?: ((tool: LeftOutTool) => void) | undefined
}

/** Lists whose unusable tools are in the log. */
const reported = new WeakSet<readonly Tool[]>()

/** Returns the tools of a slot: those in the cache, those of an earlier process, or those of the server. */
export async function toolsOf(
  operations: Operations,
  lease: Lease,
  { acceptStored = false, forceRefresh = false, onLeftOut }: ListToolsOptions,
): Promise<readonly Tool[]> {
  const { slot } = lease
  const current = forceRefresh ? undefined : slot.tools.current
  // A tool of an agent definition compares its list before each call.
  const tools = current ?? (await newTools(operations, lease, { acceptStored, forceRefresh }))
  const isNew = !reported.has(tools)
  if (onLeftOut === undefined && isNew) reported.add(tools)
  for (const tool of slot.tools.leftOutOf(tools)) {
    const { name, reason } = tool
    if (onLeftOut !== undefined) onLeftOut(tool)
    else if (isNew) slot.log('warning', `tool "${name}" is left out: ${reason}`)
  }
  return tools
}

/** Returns the list of an earlier process, if it can be used, or that of the server, within one time limit. */
async function newTools(
  operations: Operations,
  { slot, options: { signal: caller, timeoutMs = operations.timeoutMs } }: Lease,
  { acceptStored, forceRefresh }: Pick<ListToolsOptions, 'acceptStored' | 'forceRefresh'>,
): Promise<readonly Tool[]> {
  using deadline = new Deadline(timeoutMs, caller)
  const { signal } = deadline
  if (forceRefresh !== true && (acceptStored === true || acceptStored === 'first-call')) {
    try {
      const stored = await untilAborted(slot.readStoredTools(signal), signal)
      const tools = stored && slot.tools.useStored(stored, acceptStored === 'first-call')
      if (tools !== undefined) return tools
    } catch (error) {
      if (!signal.aborted) throw error
      const { server } = operations
      throw toOperationError(error, { ...LIST, server, signal, outcome: 'not-executed' })
    }
  }
  const tools = await requestTools(operations, slot, { signal, timeoutMs, forceRefresh })
  await untilAborted(slot.storeTools(), signal).catch(() => {}) // it is stored later
  return tools
}

/** Each caller has a time limit and retries of its own. Those that wait at the same time share the requests. */
function requestTools(
  operations: Operations,
  slot: ScopeSlot,
  {
    forceRefresh = false,
    ...limits
  }: Pick<ListToolsOptions, 'forceRefresh' | 'signal' | 'timeoutMs'>,
): Promise<readonly Tool[]> {
  const { server } = operations
  const operation: Operation<readonly Tool[]> = {
    ...LIST,
    isSafe: true,
    readList: (requestPage, own) => {
      const read = (shared: AbortSignal): Promise<ToolsRead> =>
        readTools((cursor) => requestPage(cursor, shared), slot, server)
      return slot.tools.get(read, { forceRefresh, signal: own, reader: slot })
    },
  }
  // The headers of one caller are not for the list of all.
  return operations.run(operation, { slot, call: undefined, options: limits })
}

async function readTools(
  requestPage: RequestPage,
  slot: ScopeSlot,
  server: string,
): Promise<ToolsRead> {
  // A server with sessions does not say how long its list is valid, but can report changes.
  const defaultMs = slot.connection?.era === 'modern' ? 0 : LIST_MS
  const missing: LeftOutTool[] = []
  let isRepeated = false
  const onRepeated = (reason: string): void => {
    isRepeated = true
    missing.push({ name: 'tools of further pages', reason })
  }
  /** @throws any other error than that of a server without tools */
  const toEmptyList = (error: unknown): Readonly<Record<string, unknown>> => {
    if (toResponse(error)?.code !== METHOD_NOT_FOUND) throw error
    const reason = 'the server declares tools, and answered tools/list with "Method not found"'
    const { tools: declared } = slot.connection?.serverCapabilities ?? {}
    if (declared !== undefined) missing.push({ name: 'all tools', reason })
    return { tools: [], ttlMs: 0 }
  }
  const list = { ...LIST, server, onRepeated }
  const pages = await allPages(list, async (cursor) => {
    const answer = requestPage(cursor)
    const page = parseToolPage(await (cursor === undefined ? answer.catch(toEmptyList) : answer))
    if (page === undefined) {
      const message = `MCP server "${server}" answered tools/list without a list of tools`
      throw new McpClientError('UNEXPECTED_RESPONSE', message, { server })
    }
    return { items: [page], nextCursor: page.nextCursor }
  })
  const ttlMs = Math.min(...pages.map((page) => page.ttlMs ?? defaultMs))
  const repeated = isRepeated ? pages.slice(-1) : []
  const others = pages.slice(0, pages.length - repeated.length)
  const tools = others.flatMap(({ items }) => items)
  const leftOut = others.flatMap((page) => page.leftOut)
  for (const page of repeated) {
    tools.push(...newNames(page.items, tools))
    leftOut.push(...newNames(page.leftOut, leftOut))
  }
  return { tools, leftOut: [...leftOut, ...missing], ttlMs }
}

/** Returns the tools of a page whose names no earlier page has. The rest of a tool may differ in each response. */
function newNames<T extends { readonly name: string }>(
  page: readonly T[],
  earlier: readonly T[],
): readonly T[] {
  const known = new Set(earlier.map(({ name }) => name))
  return page.filter(({ name }) => !known.has(name))
}

/** One page of a list. */
export interface Page<Item> {
  readonly items: readonly Item[]
  readonly nextCursor: string | undefined
}

/** The limit that the SDK's client has as well. */
const MAX_PAGES = 64

interface PagedList {
  readonly server: string
  readonly method: string
  /**
   * Called with the reason if a cursor is repeated. Then the list ends with the page that repeats it: proxies are
   * known to drop the cursor of a request (sparfenyuk/mcp-proxy#233, DeusData/codebase-memory-mcp#1247).
   *
   * @default the list is refused
   */
  readonly onRepeated?: (reason: string) => void
}

/**
 * Reads all pages of a list, in order.
 *
 * @throws McpClientError `INVALID_LIST` if there are more than 64 pages, or a cursor is repeated without `onRepeated`
 */
export async function allPages<Item>(
  { server, method, onRepeated }: PagedList,
  readPage: (cursor: string | undefined) => Promise<Page<Item>>,
): Promise<readonly Item[]> {
  const all: Item[] = []
  const cursors = new Set<string>()
  let cursor: string | undefined
  do {
    const { items, nextCursor } = await readPage(cursor)
    cursor = nextCursor
    const isRepeated = cursor !== undefined && cursors.has(cursor)
    const why = `returned the same cursor of ${method} twice`
    if (isRepeated && onRepeated === undefined) throw endless(server, why)
    all.push(...items)
    if (isRepeated) onRepeated?.(`the server ${why}`)
    if (cursor === undefined || isRepeated) return all
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
