import { isRecord } from '@x/internal'
import { SessionInfo, sessionRecordFrom } from '@x/mcp-transport'
import type { SessionRecord } from '@x/mcp-transport'
import type { GraphStore } from './graph-store.ts'

/** Where in a store a session is kept. */
export interface SessionPlace {
  readonly namespace: readonly string[]
  readonly key: string
}

export interface SessionInfoLangGraphStoreOptions {
  readonly store: GraphStore
  readonly place: SessionPlace
  /** The endpoint that a stored record must name. @default any */
  readonly serverUrl?: string | undefined
  /** The principal that a stored record must name. @default none */
  readonly principal?: string | undefined
  /** Limit of one access to the store, in milliseconds. @default 2000 */
  readonly timeoutMs?: number | undefined
  /** Told of every failure of the store; none of them is thrown. Must not throw itself. */
  readonly onError: (error: unknown) => void
}

interface KeptSession {
  readonly sessionId?: string | undefined
  readonly record?: SessionRecord | undefined
}

const TIMEOUT_MS = 2000
const NOTHING: KeptSession = {}

/**
 * Keeps the record of one session in a store of LangGraph, where the next process of the graph finds it.
 *
 * Reads once, and then answers from its copy; writing is awaited, so that what a run has told its caller
 * survives the process. A record of another server or principal counts as none, and one of a newer format
 * is left as it is. No method rejects: without the store everything works, in memory. LangGraph stores
 * have no conditional writes: of two processes that open a session at the same time, the later one stays.
 */
export class SessionInfoLangGraphStore extends SessionInfo {
  override readonly durable: boolean = true
  readonly #options: SessionInfoLangGraphStoreOptions
  #kept: KeptSession | undefined
  #reading: Promise<void> | undefined
  #writing: Promise<void> | undefined
  /** Set here, and not (yet) stored. */
  #isAhead = false
  #isNewerFormat = false
  #wasRead = false

  constructor(options: SessionInfoLangGraphStoreOptions) {
    super()
    this.#options = options
  }

  override async getSessionId(): Promise<string | undefined> {
    return (await this.#session()).sessionId
  }

  /** An id without a record is used here, and not stored: nothing would vouch for whose it is. */
  override async setSessionId(sessionId: string | undefined): Promise<void> {
    if (sessionId !== undefined && this.#kept?.sessionId === sessionId) return
    await this.#keep({ sessionId })
  }

  override async getRecord(): Promise<SessionRecord | undefined> {
    return (await this.#session()).record
  }

  override async setRecord(record: SessionRecord | undefined): Promise<void> {
    await this.#keep({ sessionId: record?.sessionId, record })
  }

  /** The copy stays where the store does not answer, and where it does not have the newest one. */
  override async refresh(): Promise<void> {
    await this.#writing
    if (this.#isAhead) return
    await this.#read((session) => {
      if (!this.#isAhead) this.#kept = session
    })
  }

  override async flush(): Promise<void> {
    await this.#writing
  }

  async #session(): Promise<KeptSession> {
    if (this.#kept === undefined) await this.#load()
    return this.#kept ?? NOTHING
  }

  /** Concurrent callers share one read. What was set meanwhile is newer than what it gives. */
  #load(): Promise<void> {
    this.#reading ??= this.#read((session) => {
      this.#kept ??= session
    }).finally(() => {
      this.#reading = undefined
    })
    return this.#reading
  }

  async #read(take: (session: KeptSession) => void): Promise<void> {
    const { store, place } = this.#options
    await this.#inTime(async () => {
      const item = await store.get([...place.namespace], place.key)
      return () => {
        this.#wasRead = true
        this.#isNewerFormat = isNewerFormat(item?.value)
        take(this.#sessionFrom(item?.value))
      }
    })
  }

  #sessionFrom(value: unknown): KeptSession {
    const record = sessionRecordFrom(value)
    if (record === undefined || !this.#isOurs(record)) return NOTHING
    return { sessionId: record.sessionId, record }
  }

  #isOurs(record: SessionRecord): boolean {
    const { serverUrl, principal } = this.#options
    return (
      record.principal === principal &&
      (serverUrl === undefined || isSameEndpoint(record.serverUrl, serverUrl))
    )
  }

  async #keep(session: KeptSession): Promise<void> {
    this.#kept = session
    this.#isAhead = true
    this.#writing ??= this.#writeAll().finally(() => {
      this.#writing = undefined
    })
    await this.#writing
  }

  /** One write at a time, and the newest session only. */
  async #writeAll(): Promise<void> {
    // Only what was looked at may be replaced: it may be of a newer format.
    if (!this.#wasRead) await this.#load()
    if (!this.#wasRead) return
    for (let written: KeptSession | undefined; written !== this.#kept;) {
      const wanted = (written = this.#kept)
      const isStored = this.#isNewerFormat || (await this.#write(wanted?.record))
      if (isStored && wanted === this.#kept) this.#isAhead = false
    }
  }

  async #write(record: SessionRecord | undefined): Promise<boolean> {
    const { store, place } = this.#options
    let isStored = false
    await this.#inTime(async () => {
      const namespace = [...place.namespace]
      await (record === undefined
        ? store.delete(namespace, place.key)
        : store.put(namespace, place.key, { ...record }, false))
      return () => {
        isStored = true
      }
    })
    return isStored
  }

  /** What comes too late has no effect. */
  async #inTime(access: () => Promise<() => void>): Promise<void> {
    const { timeoutMs = TIMEOUT_MS, onError } = this.#options
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_resolve, reject) => {
      timer = setTimeout(() => reject(new Error(`No answer within ${timeoutMs} ms`)), timeoutMs)
    })
    try {
      const apply = await Promise.race([access(), late])
      apply()
    } catch (error) {
      onError(error)
    } finally {
      clearTimeout(timer)
    }
  }
}

function isNewerFormat(value: unknown): boolean {
  return isRecord(value) && typeof value['v'] === 'number' && value['v'] > 1
}

/** Without the query: a record holds a digest in its place, which whoever adopts the record compares. */
function isSameEndpoint(one: string, other: string): boolean {
  if (!URL.canParse(one) || !URL.canParse(other)) return false
  const [a, b] = [new URL(one), new URL(other)]
  return a.origin === b.origin && a.pathname === b.pathname
}
