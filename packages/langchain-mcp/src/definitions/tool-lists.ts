import { BoundedMap, canonicalJson } from '@x/internal'
import type { ToolDefinition } from '../tool-source.ts'

type Tools = readonly ToolDefinition[]

/** Time that a list stays valid. */
const MAX_AGE_MS = 300_000

/** Caches the tool list of one server for each principal. No principal gets the list of another. */
export class ToolListCache {
  readonly #lists: BoundedMap<unknown, { readonly tools: Tools; readonly readAt: number }>
  /** Reads in progress that started after the last change. */
  readonly #reads = new Map<unknown, Promise<Tools>>()
  #changes = 0

  /** `max`: number of principals whose lists are kept. */
  constructor(max: number) {
    this.#lists = new BoundedMap(max)
  }

  /** Returns the cached list, or the list that `read` returns. Concurrent callers share one read. */
  get(principal: unknown, read: () => Promise<Tools>): Promise<Tools> {
    const cached = this.#lists.get(principal)
    if (cached !== undefined && performance.now() - cached.readAt < MAX_AGE_MS) {
      return Promise.resolve(cached.tools)
    }
    const inProgress = this.#reads.get(principal)
    if (inProgress !== undefined) return inProgress
    const reading = this.#read(principal, read)
    this.#reads.set(principal, reading)
    const forget = (): void => {
      if (this.#reads.get(principal) === reading) this.#reads.delete(principal)
    }
    reading.then(forget, forget)
    return reading
  }

  /** Makes the next `get()` read every list again. A read in progress may already be outdated when it ends. */
  invalidate(): void {
    this.#changes++
    this.#reads.clear()
    this.#lists.clear()
  }

  async #read(principal: unknown, read: () => Promise<Tools>): Promise<Tools> {
    const changes = this.#changes
    const tools = await read()
    // After a change, this list is good enough for the callers that wait for it, but is not cached.
    if (changes === this.#changes) {
      this.#lists.delete(principal)
      this.#lists.set(principal, { tools, readAt: performance.now() })
    }
    return tools
  }
}

/** A list of an earlier process. */
export interface StoredList {
  readonly tools: Tools
  /** Time in which it counts as current, in milliseconds. 0 or less if that time is over. */
  readonly currentMs: number
}

/** Time in which the list of an earlier process is used, although it does not count as current. */
const FIRST_CALL_MS = 60_000

interface UsedList {
  readonly tools: Tools
  /** By `performance.now()`, like the next one. */
  readonly currentUntil: number
  readonly usedUntil: number
}

interface StoredEntry {
  reading: Promise<void>
  /** Undefined if there is none, or this process has read its own. */
  list: UsedList | undefined
}

/**
 * Lists of an earlier process, for each principal. Without a request for the list, a new process can send its first call
 * first. A list is used while it counts as current, else for the first minute, and only until this process has read its own.
 */
export class StoredLists {
  readonly #entries: BoundedMap<unknown, StoredEntry>
  #isOver = false

  /** `max`: number of principals whose lists are kept. */
  constructor(max: number) {
    this.#entries = new BoundedMap(max)
  }

  /**
   * Returns the list that `read` has found, while it can be used. `read` is called once for each principal.
   *
   * @throws the error of `read`; the next `get()` calls it again
   */
  async get(
    principal: unknown,
    read: () => Promise<StoredList | undefined>,
  ): Promise<Tools | undefined> {
    if (this.#isOver) return undefined
    await (this.#entries.get(principal) ?? this.#read(principal, read)).reading
    const list = this.#entries.get(principal)?.list
    return list !== undefined && !this.#isOver && performance.now() < list.usedUntil
      ? list.tools
      : undefined
  }

  /** True if the list of an earlier process is in use, and this process should read its own. */
  isOutdated(principal: unknown): boolean {
    const list = this.#entries.get(principal)?.list
    return list !== undefined && (this.#isOver || performance.now() >= list.currentUntil)
  }

  /** This process has read the list itself. */
  replaced(principal: unknown): void {
    this.#entries.set(principal, { reading: Promise.resolve(), list: undefined })
  }

  /** The server has reported a change: no list of an earlier process is returned any more. */
  invalidate(): void {
    this.#isOver = true
  }

  #read(principal: unknown, read: () => Promise<StoredList | undefined>): StoredEntry {
    const entry: StoredEntry = { reading: Promise.resolve(), list: undefined }
    this.#entries.set(principal, entry)
    entry.reading = this.#load(principal, entry, read)
    return entry
  }

  async #load(
    principal: unknown,
    entry: StoredEntry,
    read: () => Promise<StoredList | undefined>,
  ): Promise<void> {
    try {
      const { tools, currentMs = 0 } = (await read()) ?? {}
      const now = performance.now()
      const currentUntil = now + currentMs
      const usedUntil = Math.max(currentUntil, now + FIRST_CALL_MS)
      entry.list = tools && { tools, currentUntil, usedUntil }
    } catch (error) {
      if (this.#entries.get(principal) === entry) this.#entries.delete(principal)
      throw error
    }
  }
}

/** Difference between two lists of one server, by the names on the server. */
export interface ToolListChange {
  readonly added: readonly string[]
  readonly removed: readonly string[]
  /** Tools with another description, schema or annotations. */
  readonly changed: readonly string[]
}

/** Returns the difference between two lists, or undefined if they have the same tools in any order. */
export function toolListChange(before: Tools, after: Tools): ToolListChange | undefined {
  if (before === after) return undefined
  const old = new Map(before.map((tool) => [tool.name, tool]))
  const now = new Map(after.map((tool) => [tool.name, tool]))
  const added = [...now.keys()].filter((name) => !old.has(name))
  const removed = [...old.keys()].filter((name) => !now.has(name))
  const changed = [...now].flatMap(([name, tool]) => {
    const known = old.get(name)
    const isChanged = known !== undefined && known !== tool && textOf(known) !== textOf(tool)
    return isChanged ? [name] : []
  })
  return added.length + removed.length + changed.length === 0
    ? undefined
    : { added, removed, changed }
}

/** Leaves out `_meta`, which may differ in each response. */
function textOf({ _meta, ...tool }: ToolDefinition): string {
  return canonicalJson(tool)
}
