import { AsyncLocalStorage } from 'node:async_hooks'
import { createHash } from 'node:crypto'
import type { RunnableConfig } from '@langchain/core/runnables'
import { AsyncLocalStorageProviderSingleton } from '@langchain/core/singletons'
import { isRecord, withoutErrorLink } from '@x/internal'
import { McpClientError } from '@x/mcp-client'
import type { SessionScope } from '@x/mcp-client'
import { isInnerName, isInterrupt, storeInside } from './langgraph.ts'

/** What a session belongs to, beside the server and the principal. */
export type SessionMode = 'run' | 'thread' | 'shared'

export type PrincipalOf = (config: RunnableConfig) => string

/** The values of a tool call that scope and header functions of clients need. */
export interface CallContext {
  readonly scope: SessionScope
  /** Store of the graph, if it has one. */
  readonly store: GraphStore | undefined
  readonly config: RunnableConfig
  /** True for a list of tools, which needs no thread: its session is closed after it. */
  readonly isList?: boolean
  /** True for a list without a config, if the config would tell its principal. */
  readonly lacksPrincipal?: boolean
}

/** Carries the context to the scope function and the header functions of a client, which take no call. */
const storage = new AsyncLocalStorage<CallContext>()

export function currentCall(): CallContext | undefined {
  return storage.getStore()
}

/** Contexts of calls that have ended. A stream that such a call has opened still sends requests in them. */
const ended = new WeakSet<CallContext>()

export function hasEnded(call: CallContext): boolean {
  return ended.has(call)
}

export async function inCall<T>(context: CallContext, call: () => T | Promise<T>): Promise<T> {
  try {
    return await storage.run(context, call)
  } finally {
    ended.add(context)
  }
}

const NO_CALL: CallContext = { scope: {}, store: undefined, config: {} }

/** Only graphs that are created for each request have more stores than this. */
const MAX_STORES = 100

/** Finds the session and the user of each call. Only the config of a call decides them. */
export class CallContexts {
  readonly mode: SessionMode
  readonly principal: PrincipalOf | undefined
  /** Stores of the runs that called tools, for `deleteThread()`; undefined for runs without a store. */
  readonly stores: Set<GraphStore | undefined>

  constructor(
    mode: SessionMode,
    principal: PrincipalOf | undefined,
    stores: Set<GraphStore | undefined> = new Set(),
  ) {
    this.mode = mode
    this.principal = principal
    this.stores = stores
  }

  /** Returns the contexts of a server whose sessions belong to something else. */
  with(mode: SessionMode): CallContexts {
    return mode === this.mode ? this : new CallContexts(mode, this.principal, this.stores)
  }

  /** True if one session serves all calls. */
  get isOneSession(): boolean {
    return this.mode === 'shared' && this.principal === undefined
  }

  /**
   * Returns the context of a call. Without a config (a list that is read outside any run) it has no principal
   * and no thread.
   *
   * @throws {McpClientError} `CONFIG` if `principal` returns no name, or throws
   */
  of(config: RunnableConfig | undefined): CallContext {
    const { mode, principal } = this
    if (config === undefined) return { ...NO_CALL, lacksPrincipal: principal !== undefined }
    const store = 'store' in config ? toGraphStore(config.store) : undefined
    if (this.stores.size < MAX_STORES) this.stores.add(store)
    return {
      scope: {
        principal: principal === undefined ? undefined : nameFrom(principal, config),
        thread: mode === 'thread' ? toThreadId(config.configurable?.['thread_id']) : undefined,
      },
      store,
      config,
    }
  }
}

/** Returns the config of the current LangChain run, or undefined outside a run. */
export function ambientConfig(): RunnableConfig | undefined {
  const config: unknown = AsyncLocalStorageProviderSingleton.getRunnableConfig()
  return isRecord(config) ? config : undefined
}

/** Returns the caller's own fields of `configurable`. */
export function ownConfigurable({ configurable = {} }: RunnableConfig): Record<string, unknown> {
  const own = Object.entries(configurable).filter(([key]) => !isInnerName(key))
  return Object.fromEntries(own)
}

/** A missing name must not become a session that several users share. */
function nameFrom(principal: PrincipalOf, config: RunnableConfig): string {
  const about = { server: 'all', outcome: 'not-executed' } as const
  let name: unknown
  try {
    name = principal(config)
  } catch (cause) {
    if (isInterrupt(cause)) throw cause
    const reason = withoutErrorLink(cause instanceof Error ? cause.message : String(cause))
    const message = `The function \`principal\` threw an error for a call: ${reason}`
    throw new McpClientError('CONFIG', message, { ...about, cause })
  }
  if (typeof name === 'string' && name !== '') return name
  const message =
    'The function `principal` returned no name for a call: it must return a string that is not empty'
  throw new McpClientError('CONFIG', message, about)
}

export function toThreadId(id: unknown): string | undefined {
  return typeof id === 'string' || typeof id === 'number' ? String(id) : undefined
}

/** The methods of LangGraph's `BaseStore` that are used here. */
export interface GraphStore {
  get(namespace: string[], key: string): Promise<{ readonly value: unknown } | null | undefined>
  /** `index: false` excludes the item from semantic search. */
  put(
    namespace: string[],
    key: string,
    value: Record<string, unknown>,
    index?: false | string[],
  ): Promise<unknown>
  delete(namespace: string[], key: string): Promise<unknown>
  /** Returns items below a namespace. Without this method, items of other processes are never deleted. */
  search?(
    namespacePrefix: string[],
    options?: { readonly filter?: Record<string, unknown>; readonly limit?: number },
  ): Promise<
    readonly { readonly namespace: string[]; readonly key: string; readonly value: unknown }[]
  >
}

/** Returns the namespace of a thread's sessions or call records. The id is hashed, because a store may refuse dots. */
export function threadNamespace(kind: 'session' | 'call', thread: string): string[] {
  return ['mcp', kind, digest([thread])]
}

/** Returns 128 bits of SHA-256 in hex. */
export function digest(parts: readonly (string | number | null)[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 32)
}

/**
 * Returns the store of a graph. A run wraps it in a store that answers only during the run, but a session is
 * also written between runs, so the wrapped store is returned.
 */
export function toGraphStore(value: unknown): GraphStore | undefined {
  if (!isRecord(value)) return undefined
  const inside = storeInside(value)
  if (isGraphStore(inside)) return inside
  return isGraphStore(value) ? value : undefined
}

function isGraphStore(value: unknown): value is GraphStore {
  return (
    isRecord(value) && ['get', 'put', 'delete'].every((name) => typeof value[name] === 'function')
  )
}

const PAGE = 100

/**
 * Deletes the items of a namespace, page by page. With `until`, only those whose `expiresAt` is earlier. Does nothing
 * for a store without `search()`.
 */
export async function deleteItems(
  store: GraphStore,
  namespace: string[],
  until: number = Infinity,
): Promise<void> {
  const filter = until === Infinity ? {} : { filter: { expiresAt: { $lt: until } } }
  for (;;) {
    const items = (await store.search?.(namespace, { ...filter, limit: PAGE })) ?? []
    const meant = items.filter(
      // A store may ignore the filter.
      ({ value }) => until === Infinity || (isRecord(value) && Number(value['expiresAt']) < until),
    )
    if (meant.length === 0) return
    await Promise.all(meant.map((item) => store.delete(item.namespace, item.key)))
  }
}
