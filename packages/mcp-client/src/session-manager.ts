import { LONGEST_MS } from './deadline.ts'
import { outsideRun } from './run-scope.ts'
import { Session } from './session.ts'
import type { SessionSetup } from './session.ts'
import { scopeKey } from './session-scope.ts'
import type { SessionScope } from './session-scope.ts'
import type { DeclinedQuestion, ScopeStatus } from './session-state.ts'

/** Which unused sessions a client with a scope function keeps. */
export interface IdleScopeOptions {
  /** Maximum number of sessions. Beyond it, the least recently used session is closed. @default 1000 */
  readonly max?: number | undefined
  /** Time that an unused session is kept, in milliseconds, at most 24 days. @default 1_800_000 (half an hour) */
  readonly ms?: number | undefined
}

export interface DisposeOptions {
  /** Closes only the session of this scope. @default all sessions */
  readonly scope?: SessionScope | undefined
  /** Terminates sessions on the server. @default the option `terminateOnClose` */
  readonly terminate?: boolean | undefined
}

interface Entry {
  readonly key: string
  readonly session: Session
  /** Number of operations that use the session now. */
  inUse: number
  isClosing: boolean
  timer: NodeJS.Timeout | undefined
}

export interface SessionManagerOptions extends SessionSetup {
  readonly scope: SessionScope | (() => SessionScope) | undefined
  readonly idleScopes: IdleScopeOptions | undefined
}

const IDLE_MAX = 1000
const IDLE_MS = 1_800_000

/**
 * Decides which session serves a call: one for each scope. The scope is determined at every call, before anything
 * else, and alone decides. Closes sessions that are not used.
 */
export class SessionManager {
  readonly #setup: SessionManagerOptions
  /** Least recently used first. */
  readonly #entries = new Map<string, Entry>()
  /** Disposals of sessions that could not be opened. */
  #failed: Set<Promise<void>> | undefined

  constructor(setup: SessionManagerOptions) {
    this.#setup = setup
  }

  /**
   * Returns the session that serves a call; give it back with `release()`.
   *
   * @throws the error of the scope function
   */
  acquire(): Entry {
    const scope = this.#scope()
    const key = scopeKey(scope)
    const entry = this.#entries.get(key) ?? this.#add(key, scope)
    entry.inUse++
    clearTimeout(entry.timer)
    return entry
  }

  /** Call this once for each `acquire()`. */
  release(entry: Entry): void {
    if (--entry.inUse > 0 || entry.isClosing) return
    if (entry.session.isInitialized) this.#keep(entry)
    else this.#closeFailed(entry)
  }

  /** Returns the session of the current scope, if there is one. @throws the error of the scope function */
  find(): Session | undefined {
    return this.#entries.get(scopeKey(this.#scope()))?.session
  }

  get lastDeclined(): DeclinedQuestion | undefined {
    return this.#setup.lastDeclined
  }

  /** Status of all sessions. */
  get sessions(): readonly ScopeStatus[] {
    return Array.from(this.#entries.values(), ({ session }) => ({
      scope: session.scope,
      ...session.status,
    }))
  }

  async dispose({ scope, terminate }: DisposeOptions = {}): Promise<void> {
    const key = scope === undefined ? undefined : scopeKey(scope)
    const entries = [...this.#entries.values()].filter(
      ({ session }) => key === undefined || scopeKey(session.scope) === key,
    )
    const closing = entries.map((entry) => this.#close(entry, terminate))
    await Promise.all([...closing, ...(this.#failed ?? [])])
  }

  #scope(): SessionScope | undefined {
    const { scope } = this.#setup
    return typeof scope === 'function' ? scope() : scope
  }

  #add(key: string, scope: SessionScope | undefined): Entry {
    const own = scope === undefined ? undefined : Object.freeze({ ...scope })
    const session = new Session(this.#setup, own)
    const entry: Entry = { key, session, inUse: 0, isClosing: false, timer: undefined }
    this.#entries.set(key, entry)
    return entry
  }

  /** Keeps an unused session for a while, and closes the least recently used ones if there are too many. */
  #keep(entry: Entry): void {
    const { scope, idleScopes } = this.#setup
    if (typeof scope !== 'function') return
    const { max = IDLE_MAX, ms = IDLE_MS } = idleScopes ?? {}
    this.#entries.delete(entry.key)
    this.#entries.set(entry.key, entry)
    outsideRun(() => {
      entry.timer = setTimeout(() => this.#evict(entry), Math.min(ms, LONGEST_MS)).unref()
    })
    if (this.#entries.size <= max) return
    const idle = [...this.#entries.values()].filter((each) => each.inUse === 0 && !each.isClosing)
    for (const oldest of idle.slice(0, Math.max(idle.length - max, 0))) this.#evict(oldest)
  }

  #evict(entry: Entry): void {
    this.#setup.events.log('info', 'The session of an unused scope is closed')
    void this.#close(entry)
  }

  /** The entry stays until it is closed: a call that arrives before waits for that, and then opens a new session. */
  async #close(entry: Entry, terminate?: boolean): Promise<void> {
    clearTimeout(entry.timer)
    entry.isClosing = true
    await entry.session.dispose(terminate)
    entry.isClosing = false
    if (entry.inUse === 0) this.#remove(entry)
  }

  /** No session could be opened. The server may have opened one all the same; the disposal terminates it. */
  #closeFailed(entry: Entry): void {
    this.#remove(entry)
    const all = (this.#failed ??= new Set())
    const disposing = entry.session.dispose().finally(() => all.delete(disposing))
    all.add(disposing)
  }

  #remove(entry: Entry): void {
    if (this.#entries.get(entry.key) === entry) this.#entries.delete(entry.key)
  }
}
