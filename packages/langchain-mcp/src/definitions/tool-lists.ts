import type { LeftOutTool } from '@x/mcp-client'
import { canonicalJson } from '@x/internal'
import { uiOf } from '../mcp-apps.ts'
import type { ToolDefinition } from '../tool-source.ts'

type Tools = readonly ToolDefinition[]

/** A list of the tools of a server. */
export interface ServerList {
  readonly tools: Tools
  /** Tools that the client has left out. */
  readonly leftOut: readonly LeftOutTool[]
  /** True if an earlier process has read the list. */
  readonly isStored: boolean
}

/** A list of an earlier process. */
export interface StoredList extends Pick<ServerList, 'tools' | 'leftOut'> {
  /** Time in which it counts as current, in milliseconds. 0 or less if that time is over. */
  readonly currentMs: number
}

/** Time that a list stays valid. */
const MAX_AGE_MS = 300_000
/** Time in which the list of an earlier process is used, although it does not count as current. */
const FIRST_CALL_MS = 60_000

/** A list, with the times by `performance.now()` until which it counts as current, and until which it is used. */
interface UsedList {
  readonly list: ServerList
  readonly currentUntil: number
  readonly usedUntil: number
}

/** The list of an earlier process, from its first use until this process has read its own. */
type Stored =
  | { readonly state: 'unread' }
  | { readonly state: 'reading'; readonly done: Promise<void> }
  | { readonly state: 'read'; readonly used: UsedList }
  | { readonly state: 'over' }

/** The tool lists of one server for one principal. No principal gets the list of another. */
export class ToolLists {
  /** The last list that was used, to find changes. */
  last: ServerList | undefined
  /** Why the last list request failed, and when. */
  failure: { readonly error: unknown; readonly at: number } | undefined
  #own: { readonly list: ServerList; readonly readAt: number } | undefined
  /** The read in progress, if it has started after the last change. */
  #reading: Promise<ServerList> | undefined
  #stored: Stored = { state: 'unread' }

  /** Returns the list that this process has read, or the list that `read` returns. Concurrent callers share one read. */
  get(read: () => Promise<ServerList>): Promise<ServerList> {
    const own = this.#own
    if (own !== undefined && performance.now() - own.readAt < MAX_AGE_MS) {
      return Promise.resolve(own.list)
    }
    if (this.#reading !== undefined) return this.#reading
    const reading = read()
    this.#reading = reading
    // After a change, a list is good enough for the callers that wait for it, but is not kept.
    const end = (list?: ServerList): void => {
      if (this.#reading !== reading) return
      this.#reading = undefined
      if (list !== undefined) this.#own = { list, readAt: performance.now() }
    }
    reading.then(end, () => end())
    return reading
  }

  /**
   * Returns the list of an earlier process, while it can be used: without a request for the list, a new process can
   * send its first call first. `read` is called once.
   *
   * @throws the error of `read`; the next call reads again
   */
  async stored(read: () => Promise<StoredList | undefined>): Promise<ServerList | undefined> {
    if (this.#stored.state === 'unread') {
      this.#stored = { state: 'reading', done: this.#readStored(read) }
    }
    if (this.#stored.state === 'reading') await this.#stored.done
    const stored: Stored = this.#stored
    return stored.state === 'read' && performance.now() < stored.used.usedUntil
      ? stored.used.list
      : undefined
  }

  /** True if the list of an earlier process is in use, and this process should read its own. */
  get isOutdated(): boolean {
    const stored = this.#stored
    return stored.state === 'read' && performance.now() >= stored.used.currentUntil
  }

  /** This process has read the list itself. */
  endStored(): void {
    this.#stored = { state: 'over' }
  }

  /** Makes the next `get()` read the list again. */
  forget(): void {
    this.#reading = undefined
    this.#own = undefined
  }

  /** The server has reported a change: the list of an earlier process is not used any more, either. */
  invalidate(): void {
    this.forget()
    if (this.#stored.state !== 'read') return this.endStored()
    const used = { ...this.#stored.used, currentUntil: 0, usedUntil: 0 }
    this.#stored = { state: 'read', used }
  }

  async #readStored(read: () => Promise<StoredList | undefined>): Promise<void> {
    try {
      const found = await read()
      if (this.#stored.state !== 'reading') return // this process was faster
      if (found === undefined) return this.endStored()
      const { tools, leftOut, currentMs } = found
      const now = performance.now()
      const currentUntil = now + currentMs
      const usedUntil = Math.max(currentUntil, now + FIRST_CALL_MS)
      const list = { tools, leftOut, isStored: true }
      this.#stored = { state: 'read', used: { list, currentUntil, usedUntil } }
    } catch (error) {
      if (this.#stored.state === 'reading') this.#stored = { state: 'unread' }
      throw error
    }
  }
}

/** Difference between two lists of one server, by the names on the server. */
export interface ToolListChange {
  readonly added: readonly string[]
  readonly removed: readonly string[]
  /** Tools with another description, schema, annotations or user interface. */
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

/** Of `_meta`, only `ui` counts, because the rest may differ in each response. */
function textOf(definition: ToolDefinition): string {
  const { _meta, ...tool } = definition
  return canonicalJson({ ...tool, ui: uiOf(definition) })
}
