import type { Tool } from '@modelcontextprotocol/sdk/types.js'
import { BoundedMap, within } from '@x/internal'
import { ToolListRecord } from '@x/mcp-transport'
import type { Era, StoredTools } from '@x/mcp-transport'
import type { McpServer } from './directory/server-directory.ts'
import type { ClientEvents, McpClientEvents } from './events.ts'
import { parseToolPage } from './lists.ts'
import type { SessionInfoSource } from './session-info-factory.ts'
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

/** Requests all pages of the list. Changes that the server announces from then on are not part of the result. */
export type ReadTools = (signal: AbortSignal) => Promise<ToolsRead>

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
    const isRecent = !forceRefresh && this.#fetch?.asOf === this.#changes
    const fetch = (this.#fetch =
      isRecent && this.#fetch !== undefined
        ? this.#fetch
        : { flight: new SingleFlight(), asOf: this.#changes })
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
    try {
      const { tools: given, leftOut, ttlMs } = await read(signal)
      const tools = frozen([...given])
      this.#reads.set(tools, { tools, leftOut: frozen([...leftOut]), ttlMs })
      // A request that was overtaken must not overwrite a newer list.
      if (this.#fetch === fetch) this.#keep(tools, fetch.asOf)
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
  /** Value of `#changes` when the list was requested. */
  readonly asOf: number
}

/** Several callers share the list, so none may change it. */
function frozen<T>(value: T): T {
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

/** A list of tools that an earlier process, or this one, has stored. */
export interface StoredToolList {
  /** Frozen. */
  readonly tools: readonly Tool[]
  readonly leftOut: readonly LeftOutTool[]
  /** Time in which the list still counts as current, in milliseconds. 0 or less if that time is over. */
  readonly currentMs: number
}

/** Whose list it is: one server and one principal. */
export interface ToolListOwner {
  readonly server: McpServer
  readonly principal: string | undefined
}

/** Age at which a stored list counts as none, in milliseconds. */
const MAX_AGE_MS = 86_400_000
/** Limit for `createSession()`, in milliseconds. */
const STORE_MS = 2000
/** Number of principals whose lists are kept in memory. */
const MAX_PLACES = 1000

/** Where the list of one principal is stored. */
interface Place {
  readonly record: ToolListRecord
  /** Undefined before the store was read. */
  list: Promise<KeptList | undefined> | undefined
  /** The last of the writes, which run one after another. */
  writing: Promise<void>
}

type KeptList = Omit<StoredToolList, 'currentMs'> & Pick<StoredTools, 'readAt' | 'ttlMs'>

/**
 * Keeps lists of tools in the stores of the session factory, one for each principal: a list is the same in all threads
 * and runs. A list is stored when it was read, and removed when it may have changed. No method rejects: without a
 * durable store, nothing is kept.
 */
export class StoredToolLists {
  readonly #source: SessionInfoSource | undefined
  readonly #events: ClientEvents
  /** By principal. Undefined without a durable store. */
  readonly #places: BoundedMap<string | undefined, Place | undefined> = new BoundedMap(MAX_PLACES)

  /** `source` is undefined if sessions are kept in memory. */
  constructor(source: SessionInfoSource | undefined, events: ClientEvents) {
    this.#source = source
    this.#events = events
  }

  /** False if no list is ever stored. */
  get isUsed(): boolean {
    return this.#source !== undefined
  }

  /** Returns the stored list, unless it is older than a day. */
  async read(owner: ToolListOwner): Promise<StoredToolList | undefined> {
    const place = await this.#placeOf(owner)
    if (place === undefined) return undefined
    place.list ??= place.record.read().then(keptList)
    const kept = await place.list
    if (kept === undefined) return undefined
    const { tools, leftOut, readAt, ttlMs } = kept
    // After a clock was set back, the age is not known. Then it counts as the time by which it was set back.
    const ageMs = Math.abs(Date.now() - Date.parse(readAt))
    return ageMs > MAX_AGE_MS ? undefined : { tools, leftOut, currentMs: ttlMs - ageMs }
  }

  /** Stores a list that was just read. Returns at once for the list that was stored last. */
  async write(owner: ToolListOwner, read: ToolsRead, era: Era): Promise<void> {
    const place = await this.#placeOf(owner)
    if (place === undefined || (await place.list)?.tools === read.tools) return
    const kept = { ...read, readAt: new Date().toISOString() }
    place.list = Promise.resolve(kept)
    await this.#store(place, kept, era)
  }

  /** Removes the list of a principal, because it may have changed. Asks no store that was not used before. */
  remove(principal: string | undefined, era: Era): void {
    const place = this.#places.get(principal)
    if (place === undefined) return
    place.list = Promise.resolve(undefined)
    void this.#store(place, undefined, era)
  }

  /** Resolves when all writes are done or have failed. */
  async settled(): Promise<void> {
    await Promise.all(Array.from(this.#places.values(), async (place) => place?.writing))
  }

  #store(place: Place, list: KeptList | undefined, era: Era): Promise<void> {
    const before = place.writing
    const store = async (): Promise<void> => {
      await before
      try {
        const isStored = await place.record.write(list, era)
        if (!isStored) this.#log('The list of tools is too long to be stored')
      } catch (error) {
        this.#log('The list of tools could not be stored', error)
      }
    }
    place.writing = store()
    return place.writing
  }

  async #placeOf(owner: ToolListOwner): Promise<Place | undefined> {
    const { principal } = owner
    if (this.#places.has(principal)) return this.#places.get(principal)
    const record = await this.#createRecord(owner)
    // Another caller may have been faster.
    if (this.#places.has(principal)) return this.#places.get(principal)
    const place = record && { record, list: undefined, writing: Promise.resolve() }
    this.#places.set(principal, place)
    return place
  }

  /** Returns undefined without a durable store, and for a factory that fails or does not answer. */
  async #createRecord({ server, principal }: ToolListOwner): Promise<ToolListRecord | undefined> {
    const { mcpUrl: url } = server
    if (this.#source === undefined || !url) return undefined
    const report = (error: Error): void =>
      this.#log('The stored list of tools cannot be used', error)
    try {
      const scope = principal === undefined ? {} : { principal }
      const created = Promise.resolve(this.#source.createSession(server, scope, 'tools'))
      const info = await within(created, STORE_MS, () => undefined)
      return info?.durable === true
        ? new ToolListRecord({ info, url, principal, report })
        : undefined
    } catch (error) {
      this.#log('The list of tools cannot be stored', error)
      return undefined
    }
  }

  #log(message: string, cause?: unknown): void {
    this.#events.log('debug', message, cause)
  }
}

/** The store may have been changed by others, so each definition is checked like one of a server. */
function keptList(stored: StoredTools | undefined): KeptList | undefined {
  if (stored === undefined) return undefined
  const { readAt, ttlMs } = stored
  const { items = [], leftOut = [] } = parseToolPage({ tools: stored.tools }) ?? {}
  return { tools: frozen(items), leftOut: [...stored.leftOut, ...leftOut], readAt, ttlMs }
}
