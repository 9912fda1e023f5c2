import { BoundedMap, within } from '@x/internal'
import { ToolListRecord } from '@x/mcp-transport'
import type { Era, StoredTools } from '@x/mcp-transport'
import type { Tool } from '@modelcontextprotocol/sdk/types.js'
import type { McpServer } from './directory/server-directory.ts'
import type { ClientEvents } from './events.ts'
import { parseToolPage } from './lists.ts'
import type { SessionInfoSource } from './session-info-factory.ts'
import { frozen } from './tool-list.ts'
import type { LeftOutTool, ToolsRead } from './tool-list.ts'

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
  /** Called before the first use of the list. */
  readonly server: () => McpServer | Promise<McpServer>
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
 * and runs. A list is stored when it was read, and removed when it may have changed. A failure of the store is
 * logged: without a durable store, nothing is kept.
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

  /** Returns the stored list, unless it is older than a day. @throws the error of `server()` */
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

  /** Stores the current list. Returns at once for the list that was stored last. */
  async write(
    owner: ToolListOwner,
    tools: { readonly currentRead: ToolsRead | undefined },
    era: Era,
  ): Promise<void> {
    const place = await this.#placeOf(owner)
    if (place === undefined) return
    const last = await place.list
    const read = tools.currentRead // it may have changed while the store was asked
    if (read === undefined || read.tools === last?.tools) return
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
    const record = await this.#createRecord(await owner.server(), principal)
    // Another caller may have been faster.
    if (this.#places.has(principal)) return this.#places.get(principal)
    const place = record && { record, list: undefined, writing: Promise.resolve() }
    this.#places.set(principal, place)
    return place
  }

  /** Returns undefined without a durable store, and for a factory that fails or does not answer. */
  async #createRecord(
    server: McpServer,
    principal: string | undefined,
  ): Promise<ToolListRecord | undefined> {
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
