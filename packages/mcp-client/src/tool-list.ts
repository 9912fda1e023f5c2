import type { Tool } from '@modelcontextprotocol/sdk/types.js'
import { BoundedMap, canonicalJson } from '@x/internal'
import type { ClientEvents, McpClientEvents } from './events.ts'
import { SingleFlight } from './single-flight.ts'
import type { StoredToolList } from './stored-tool-lists.ts'

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

/** The last list of tools, as far as it is known without a request. */
export interface KnownTools {
  /** Frozen. The same array until there is another list. */
  readonly tools: readonly Tool[]
  /** Tools that the server had, and that cannot be used. */
  readonly leftOut: readonly LeftOutTool[]
  /** An earlier process has read the list. */
  readonly isStored: boolean
  /** False if the list should be read again: it may have changed, or its time is over. */
  readonly isCurrent: boolean
}

/** Where a list is read: the slot of a caller. */
interface Reader {
  /** It has a session, in which the server can report changes. */
  readonly isWatching: boolean
  /** Returns whether an error of another caller is none of this one. */
  isOfOtherHeaders(error: unknown): Promise<boolean>
}

/** A list that this process has read. */
interface OwnList {
  readonly tools: readonly Tool[]
  readonly ttlMs: number
  /** Number of its request. */
  readonly number: number
  /** Number of changes when it was requested. */
  readonly asOf: number
  readonly readAt: number
  readonly reader: WeakRef<Reader>
}

/** A list of an earlier process that a caller has got, and the time by `performance.now()` until which it is current. */
interface UsedList {
  readonly tools: readonly Tool[]
  readonly currentUntil: number
}

/** By list, which the caller may have longer than its `ToolList` is kept. */
const leftOutTools = new WeakMap<readonly Tool[], readonly LeftOutTool[]>()

/** Time that a list stays current when the session that read it is closed or lost, and reports no more changes. */
const UNWATCHED_MS = 300_000
/** Time in which an outdated list of an earlier process can be used, for the first call. */
const FIRST_CALL_MS = 60_000

/**
 * The tools of the server, for one session or for all sessions of a principal. Cached until the server says that they
 * changed, another session takes the place of a lost one, or 5 minutes after a session that is closed or lost has read them.
 * Concurrent callers in one session share one request. If a request fails, the old list stays.
 */
export class ToolList {
  readonly #events: ClientEvents
  #own: OwnList | undefined
  /** Number of changes that the server has announced. */
  #changes = 0
  /** Number of requests so far. */
  #requests = 0
  /** The last request of each session, until it ends. */
  readonly #fetches = new WeakMap<Reader, Fetch>()
  /** The list of an earlier process, until this one has read its own. */
  #stored: UsedList | undefined
  #firstUsedAt: number | undefined

  /** Emits `toolsChanged` when a new list differs from the one before. */
  constructor(events: ClientEvents) {
    this.#events = events
  }

  /** Number of tools in the last list. Undefined if there was none yet. */
  get size(): number | undefined {
    return this.#own?.tools.length
  }

  /** Tools that the server had in its last list, and that cannot be used. */
  get leftOut(): readonly LeftOutTool[] {
    return this.#own === undefined ? [] : this.leftOutOf(this.#own.tools)
  }

  /** The same for a list that `get()` or `useStored()` has returned. */
  leftOutOf(tools: readonly Tool[]): readonly LeftOutTool[] {
    return leftOutTools.get(tools) ?? []
  }

  /** The last list that a caller has got. */
  get known(): KnownTools | undefined {
    const { tools } = this.#own ?? this.#stored ?? {}
    if (tools === undefined) return undefined
    const isStored = this.#own === undefined
    const isCurrent = isStored
      ? performance.now() < (this.#stored?.currentUntil ?? 0)
      : this.current !== undefined
    return { tools, leftOut: this.leftOutOf(tools), isStored, isCurrent }
  }

  /** The last list with all that was read, unless the server has announced a change since. */
  get currentRead(): ToolsRead | undefined {
    if (this.#own === undefined || this.current === undefined) return undefined
    const { tools, ttlMs } = this.#own
    return { tools, leftOut: this.leftOutOf(tools), ttlMs }
  }

  /** Returns a tool of the last list of this process, without a request. */
  find(name: string): Tool | undefined {
    return this.#own?.tools.find((tool) => tool.name === name)
  }

  /** True if the tool is in the last list of this process, declared as read-only or idempotent. */
  isDeclaredIdempotent(name: string): boolean {
    const annotations = this.find(name)?.annotations
    return annotations?.readOnlyHint === true || annotations?.idempotentHint === true
  }

  /** The last list of this process, unless it may have changed since. */
  get current(): readonly Tool[] | undefined {
    const own = this.#own
    if (own?.asOf !== this.#changes) return undefined
    const isWatched = own.reader.deref()?.isWatching === true
    return isWatched || performance.now() - own.readAt < UNWATCHED_MS ? own.tools : undefined
  }

  /**
   * Returns the tools of an earlier process, if they can be used: before this process has read its own, and while they
   * are current, or for a minute with `acceptsOutdated`.
   */
  useStored(
    { tools, leftOut, currentMs }: StoredToolList,
    acceptsOutdated: boolean,
  ): readonly Tool[] | undefined {
    if (this.#own !== undefined || this.#changes > 0) return undefined
    const now = performance.now()
    const isFirstCall = now < (this.#firstUsedAt ?? now) + FIRST_CALL_MS
    if (currentMs <= 0 && !(acceptsOutdated && isFirstCall)) return undefined
    this.#firstUsedAt ??= now
    this.#stored = { tools, currentUntil: now + currentMs }
    leftOutTools.set(tools, leftOut)
    return tools
  }

  get(
    read: ReadTools,
    {
      forceRefresh,
      signal,
      reader,
    }: {
      readonly forceRefresh: boolean
      readonly signal: AbortSignal
      readonly reader: Reader
    },
  ): Promise<readonly Tool[]> {
    if (!forceRefresh && this.current !== undefined) return Promise.resolve(this.current)
    // Joins a request only if its result will be recent enough: a refresh needs a request that starts after it. A request
    // in another session may fail for a reason that is none here.
    const asOf = this.#changes
    let fetch = this.#fetches.get(reader)
    if (forceRefresh || fetch?.asOf !== asOf) {
      fetch = { flight: new SingleFlight(), number: ++this.#requests, asOf, reader }
      this.#fetches.set(reader, fetch)
    }
    const refresh = (shared: AbortSignal): Promise<readonly Tool[]> =>
      this.#refresh(fetch, read, shared)
    return fetch.flight.join(refresh, signal, (error) => reader.isOfOtherHeaders(error))
  }

  /** Marks the list as outdated: the server announced a change, or another session took the place of a lost one. */
  invalidate(): void {
    this.#changes++
    if (this.#stored !== undefined) this.#stored = { ...this.#stored, currentUntil: 0 }
  }

  async #refresh(fetch: Fetch, read: ReadTools, signal: AbortSignal): Promise<readonly Tool[]> {
    try {
      const { tools: given, leftOut, ttlMs } = await read(signal)
      const tools = frozen([...given])
      leftOutTools.set(tools, frozen([...leftOut]))
      // A request that was overtaken must not overwrite a newer list.
      if (fetch.number >= (this.#own?.number ?? 0)) this.#keep(tools, ttlMs, fetch)
      return tools
    } finally {
      if (this.#fetches.get(fetch.reader) === fetch) this.#fetches.delete(fetch.reader)
    }
  }

  #keep(tools: readonly Tool[], ttlMs: number, { number, asOf, reader }: Fetch): void {
    const before = (this.#own ?? this.#stored)?.tools
    const readAt = performance.now()
    this.#own = { tools, ttlMs, number, asOf, readAt, reader: new WeakRef(reader) }
    this.#stored = undefined
    const changes = before === undefined ? undefined : changesBetween(before, tools)
    if (changes !== undefined) this.#events.emit('toolsChanged', changes)
  }
}

interface Fetch {
  readonly flight: SingleFlight<readonly Tool[]>
  /** Counts up: a list of a higher number is newer. */
  readonly number: number
  /** Value of `#changes` when the list was requested. */
  readonly asOf: number
  readonly reader: Reader
}

/** The lists of tools that all sessions of a principal share (`toolsPer: 'principal'`). No principal gets the list of another. */
export class PrincipalLists {
  readonly #events: ClientEvents
  /** By principal. The lists that were used last are kept. */
  readonly #lists: BoundedMap<string | undefined, ToolList>
  /** The server has announced a change: no list of an earlier process is used any more. */
  #hasChanged = false

  constructor(events: ClientEvents, max: number) {
    this.#events = events
    this.#lists = new BoundedMap(max)
  }

  of(principal: string | undefined): ToolList {
    const list = this.#lists.get(principal) ?? this.#create(principal)
    this.#lists.delete(principal)
    this.#lists.set(principal, list)
    return list
  }

  #create(principal: string | undefined): ToolList {
    const scope = principal === undefined ? undefined : { principal }
    const list = new ToolList(this.#events.forScope(scope))
    if (this.#hasChanged) list.invalidate()
    return list
  }

  /** Returns the last list of a principal, without a request. */
  known(principal: string | undefined): KnownTools | undefined {
    return this.#lists.get(principal)?.known
  }

  /** The server may have other lists now, for every principal. */
  invalidate(): void {
    this.#hasChanged = true
    for (const list of this.#lists.values()) list.invalidate()
  }

  clear(): void {
    this.#hasChanged = false
    this.#lists.clear()
  }
}

/** Several callers share the list, so none may change it. */
export function frozen<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value)
    for (const part of Object.values(value)) frozen(part)
  }
  return value
}

/** Returns the difference between two lists, or undefined if they have the same tools in any order. */
function changesBetween(
  before: readonly Tool[],
  after: readonly Tool[],
): McpClientEvents['toolsChanged'] | undefined {
  const old = new Map(before.map((tool) => [tool.name, tool]))
  const now = new Map(after.map((tool) => [tool.name, tool]))
  const added = [...now.keys()].filter((name) => !old.has(name))
  const removed = [...old.keys()].filter((name) => !now.has(name))
  const changed = [...now].flatMap(([name, tool]) => {
    const known = old.get(name)
    return known !== undefined && textOf(known) !== textOf(tool) ? [name] : []
  })
  return added.length + removed.length + changed.length === 0
    ? undefined
    : { added, removed, changed }
}

/** Only the user interface of `_meta` counts (SEP-1865), because the rest may differ in each response. */
function textOf({ _meta: { ui, 'ui/resourceUri': uri } = {}, ...tool }: Tool): string {
  return canonicalJson({ ...tool, ui, uri })
}
