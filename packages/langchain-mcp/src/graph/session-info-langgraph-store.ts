import { check, isNewerRecord, type Checks, within } from '@x/internal'
import { SessionInfoFactory } from '@x/mcp-client'
import type { McpServer, SessionInfoPurpose, SessionScope } from '@x/mcp-client'
import { SessionInfo, sessionRecordFrom } from '@x/mcp-transport'
import type { SessionRecord } from '@x/mcp-transport'
import { processWarnings, type ToolLog } from '../log.ts'
import { assertOptions } from '../options.ts'
import {
  currentCall,
  digest,
  threadNamespace,
  toGraphStore,
  type GraphStore,
} from './call-context.ts'

export interface SessionInfoLangGraphStoreOptions {
  readonly store: GraphStore
  readonly namespace: string[]
  readonly key: string
  /** Receives every failure of the store. Must not throw. */
  readonly onError: (error: unknown) => void
  /** Limit of one access to the store, in milliseconds. */
  readonly timeoutMs: number
}

interface StoredSession {
  readonly sessionId: string | undefined
  readonly record: SessionRecord | undefined
}

const TIMEOUT_MS = 2000

/**
 * Keeps the record of one session in a LangGraph store, for the next process of the graph. The transport checks that it
 * belongs to its server and principal, and makes one access at a time.
 *
 * The item is read once, and then a copy in memory serves. Writes are awaited, so that a run does not end before its
 * session is stored. No method rejects: if the store fails, the session stays in memory. LangGraph stores have no
 * conditional writes: if two processes open a session at once, the last write wins.
 */
export class SessionInfoLangGraphStore extends SessionInfo {
  override readonly durable: boolean = true
  readonly #options: SessionInfoLangGraphStoreOptions
  /** Undefined before the store has answered. */
  #copy: StoredSession | undefined
  #reading: Promise<StoredSession | undefined> | undefined
  /** The copy in memory is newer than the store. */
  #isAhead = false
  /** True if a newer version of this package wrote the item, which stays. Undefined before it was read. */
  #isNewerFormat: boolean | undefined

  constructor(options: SessionInfoLangGraphStoreOptions) {
    super()
    this.#options = options
  }

  override async getSessionId(): Promise<string | undefined> {
    return (await this.#session())?.sessionId
  }

  /** Keeps an id without a record only in memory, because nothing says which principal it belongs to. */
  override async setSessionId(sessionId: string | undefined): Promise<void> {
    if (sessionId !== undefined && this.#copy?.sessionId === sessionId) return
    await this.#set(sessionId, undefined)
  }

  override async getRecord(): Promise<SessionRecord | undefined> {
    return (await this.#session())?.record
  }

  override async setRecord(record: SessionRecord | undefined): Promise<void> {
    await this.#set(record?.sessionId, record)
  }

  /** Reads the store again. Keeps the copy if the store does not answer, or if the copy is newer. */
  override async refresh(): Promise<void> {
    if (this.#isAhead) return
    const stored = await this.#read()
    if (stored !== undefined && !this.#isAhead) this.#copy = stored
  }

  /** Concurrent callers share one read. A session that was set in the meantime is newer and stays. */
  async #session(): Promise<StoredSession | undefined> {
    if (this.#copy !== undefined) return this.#copy
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined
    })
    const stored = await this.#reading
    return (this.#copy ??= stored)
  }

  /** Returns undefined if the store does not answer. */
  async #read(): Promise<StoredSession | undefined> {
    const { store, namespace, key } = this.#options
    const read = await this.#inTime(() => store.get(namespace, key))
    if (read === undefined) return undefined
    const value = read.result?.value
    this.#isNewerFormat = isNewerRecord(value)
    const record = sessionRecordFrom(value)
    return { sessionId: record?.sessionId, record }
  }

  async #set(sessionId: string | undefined, record: SessionRecord | undefined): Promise<void> {
    const copy = (this.#copy = { sessionId, record })
    this.#isAhead = true
    if (this.#isNewerFormat === undefined) await this.#read()
    if (this.#isNewerFormat !== false) return
    const { store, namespace, key } = this.#options
    const isStored = await this.#inTime(() =>
      record === undefined
        ? store.delete(namespace, key)
        : store.put(namespace, key, { ...record }, false),
    )
    if (isStored && this.#copy === copy) this.#isAhead = false
  }

  /** Returns the result of an access. Returns undefined if it fails or comes too late. */
  async #inTime<Result>(
    access: () => Promise<Result>,
  ): Promise<{ readonly result: Result } | undefined> {
    const { timeoutMs, onError } = this.#options
    try {
      const result = await within(access(), timeoutMs, () => {
        throw new Error(`No answer within ${timeoutMs} ms`)
      })
      return { result }
    } catch (error) {
      onError(error)
      return undefined
    }
  }
}

export interface SessionInfoLangGraphStoreFactoryOptions {
  /** The store of the graph. @default the store of the run that opens the session */
  readonly store?: GraphStore | undefined
  /** Receives one warning if a session cannot be stored, and one if the store fails. @default warnings of the Node process */
  readonly log?: ToolLog | undefined
}

const optionChecks: Checks<SessionInfoLangGraphStoreFactoryOptions> = {
  store: check.methods('get', 'put', 'delete'),
  log: check.func,
}

type LogCode = 'SESSION_IN_MEMORY' | 'SESSION_STORE_FAILED'

/**
 * Keeps the sessions of threads in the graph's own store: one item for each server, thread and principal,
 * below `['mcp', 'session', …]`. Without a thread or a store, sessions stay in memory, with one warning. The lists of
 * tools are below `['mcp', 'tools']`: one item for each server and principal.
 *
 * @example
 * ```ts
 * import { InMemoryStore } from '@langchain/langgraph'
 * import { createMcpTools, SessionInfoLangGraphStoreFactory } from '@x/langchain-mcp'
 *
 * const mcp = createMcpTools({
 *   servers: { shop: { url: 'https://shop.example/mcp' } },
 *   session: 'thread',
 *   sessionInfoFactory: new SessionInfoLangGraphStoreFactory({ store: new InMemoryStore() }),
 * })
 * ```
 */
export class SessionInfoLangGraphStoreFactory extends SessionInfoFactory {
  readonly #options: SessionInfoLangGraphStoreFactoryOptions
  readonly #logged = new Set<LogCode>()

  constructor(options: SessionInfoLangGraphStoreFactoryOptions = {}) {
    super()
    assertOptions('SessionInfoLangGraphStoreFactory', options, optionChecks)
    this.#options = options
  }

  override createSession(
    server: McpServer,
    scope: SessionScope = {},
    purpose?: SessionInfoPurpose,
  ): SessionInfo {
    const { store = currentCall()?.store } = this.#options
    const graphStore = toGraphStore(store)
    const isSession = purpose === undefined
    const place = isSession ? sessionPlaceOf(server, scope) : toolsPlaceOf(server, scope)
    if (graphStore === undefined || place === undefined) {
      const missing =
        scope.thread === undefined
          ? 'the call has no `thread_id`, so that it shares the session of all such calls. Pass `configurable: { thread_id }`'
          : 'the run has no store, so that the next process opens a new one. Compile the graph with a `store`, or pass a `sessionInfoFactory`'
      // The session of a run ends with the run, and that of a list with the list.
      if (isSession && scope.run === undefined && currentCall()?.isList !== true) {
        this.#logOnce('SESSION_IN_MEMORY', server, `is kept in memory only: ${missing}`)
      }
      return super.createSession(server, scope)
    }
    return new SessionInfoLangGraphStore({
      store: graphStore,
      ...place,
      timeoutMs: TIMEOUT_MS,
      onError: (error) => {
        const what = `could not be read or written in the store of the graph: ${String(error)}`
        this.#logOnce('SESSION_STORE_FAILED', server, what)
      },
    })
  }

  #logOnce(code: LogCode, { slug, name, mcpUrl }: McpServer, what: string): void {
    if (this.#logged.has(code)) return
    this.#logged.add(code)
    const { log = processWarnings } = this.#options
    const url = URL.parse(mcpUrl ?? '')
    const title = slug ?? name ?? (url === null ? 'unnamed' : `${url.origin}${url.pathname}`)
    log({
      level: 'warning',
      code,
      message: `The session with MCP server "${title}" ${what}`,
      server: title,
    })
  }
}

type Place = Pick<SessionInfoLangGraphStoreOptions, 'namespace' | 'key'>

/** Returns undefined for a session without a thread, and for the session of a run. */
function sessionPlaceOf(server: McpServer, scope: SessionScope): Place | undefined {
  const { thread, run } = scope
  const key = placeKey(server, scope)
  if (key === undefined || thread === undefined || run !== undefined) return undefined
  return { namespace: threadNamespace('session', thread), key }
}

function toolsPlaceOf(server: McpServer, scope: SessionScope): Place | undefined {
  const key = placeKey(server, scope)
  return key === undefined ? undefined : { namespace: ['mcp', 'tools'], key }
}

/** Ids and URLs are hashed, because others may read the keys of a store. */
function placeKey(
  { slug, folderKey, mcpUrl }: McpServer,
  { principal }: SessionScope,
): string | undefined {
  const server = slug || mcpUrl
  if (!server) return undefined
  return digest([folderKey ?? null, slug || null, slug ? null : urlKey(server), principal ?? null])
}

/** Keeps the query, because it may select the tenant. Removes user, password and fragment. */
function urlKey(text: string): string {
  const url = URL.parse(text)
  if (url === null) return text
  url.username = url.password = url.hash = ''
  return url.href
}
