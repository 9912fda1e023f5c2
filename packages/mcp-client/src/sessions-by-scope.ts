import type { ClientEvents } from './client-events.ts'
import { LONGEST_MS } from './deadline.ts'
import { outsideRun } from './run/run-context.ts'
import type { ScopedSession } from './scoped-session.ts'
import type { OpenCall } from './session-calls.ts'
import { scopeKey } from './session-scope.ts'
import type { SessionScope } from './session-scope.ts'
import type { ScopeStatus } from './telemetry/client-status.ts'

/** How many sessions that nobody uses are kept, and how long. */
export interface IdleScopeOptions {
  /** Beyond that, the one that was not used for longest is closed. @default 1000 */
  readonly max?: number | undefined
  /** In milliseconds, at most 24 days. @default 1_800_000 (half an hour) */
  readonly ms?: number | undefined
}

export interface DisposeOptions {
  /** Only what belongs to this scope. @default everything */
  readonly scope?: SessionScope | undefined
  /** Whether sessions are ended on the server. @default as `terminateOnClose` says */
  readonly terminate?: boolean | undefined
}

export interface SessionsByScopeOptions {
  readonly scope: SessionScope | (() => SessionScope) | undefined
  /** `isOfOneCall`: a session that ends with the call that it is made for. */
  readonly make: (scope: SessionScope | undefined, isOfOneCall: boolean) => ScopedSession
  readonly idle: IdleScopeOptions | undefined
  readonly events: ClientEvents
}

interface Entry {
  readonly key: string
  readonly scope: SessionScope | undefined
  readonly session: ScopedSession
  readonly isOfOneCall: boolean
  inUse: number
  isClosing: boolean
  timer?: NodeJS.Timeout | undefined
}

/** A call in which the server may ask questions. */
export interface AskingCall extends OpenCall {
  /** When the call gets a session of its own: see `CallToolOptions.ownSession`. */
  readonly ownSession?: 'always' | 'when-shared' | undefined
}

const IDLE_MAX = 1000
const IDLE_MS = 1_800_000

/**
 * One session for each scope that a client is used in. The scope is asked at every call, before anything
 * else, and decides alone which session serves it: never who came first.
 */
export class SessionsByScope {
  readonly #setup: SessionsByScopeOptions
  /** Those that were used last come last. */
  readonly #entries = new Map<string, Entry>()
  #givenUp: Set<Promise<void>> | undefined
  #ownSessions = 0

  constructor(setup: SessionsByScopeOptions) {
    this.#setup = setup
  }

  /**
   * Runs an operation in the session of its scope. `call` is given where the server may ask questions in it.
   * Rejects with what the scope function throws.
   */
  async use<T>(operation: (session: ScopedSession) => Promise<T>, call?: AskingCall): Promise<T> {
    const entry = this.#entryFor(call)
    const { session } = entry
    entry.inUse++
    clearTimeout(entry.timer)
    const open = call && session.calls?.start(call)
    try {
      return await (open === undefined ? operation(session) : open.run(() => operation(session)))
    } catch (error) {
      open?.failed(error)
      throw error
    } finally {
      open?.end()
      if (--entry.inUse === 0 && !entry.isClosing) this.#rest(entry)
    }
  }

  /** The session of the present scope, if there is one. @throws what the scope function throws */
  find(): ScopedSession | undefined {
    return this.#entries.get(scopeKey(this.#scope()))?.session
  }

  /** Of all scopes. */
  status(): readonly ScopeStatus[] {
    return Array.from(this.#entries.values(), ({ scope, session }) => ({
      scope,
      ...session.status,
    }))
  }

  async dispose({ scope, terminate }: DisposeOptions = {}): Promise<void> {
    const key = scope === undefined ? undefined : scopeKey(scope)
    const entries = [...this.#entries.values()].filter(
      (entry) => key === undefined || scopeKey(entry.scope) === key,
    )
    const closing = entries.map((entry) => this.#close(entry, terminate))
    await Promise.all([...closing, ...(this.#givenUp ?? [])])
  }

  #scope(): SessionScope | undefined {
    const { scope } = this.#setup
    return typeof scope === 'function' ? scope() : scope
  }

  #entryFor({ caller, tool, ownSession }: Partial<AskingCall> = {}): Entry {
    const scope = this.#scope()
    const key = scopeKey(scope)
    const known = this.#entries.get(key)
    const isOfOneCall =
      ownSession === 'always' ||
      (ownSession === 'when-shared' && known?.session.calls?.isFreeFor(caller) === false)
    if (!isOfOneCall) return known ?? this.#add(key, { scope, isOfOneCall })
    const why = 'so that the questions of the server can be told from those of other calls'
    this.#setup.events.log('info', `Tool "${tool}" is called in a session of its own, ${why}`)
    return this.#add(`${key}#${++this.#ownSessions}`, { scope, isOfOneCall })
  }

  #add(key: string, { scope, isOfOneCall }: Pick<Entry, 'scope' | 'isOfOneCall'>): Entry {
    const own = scope === undefined ? undefined : Object.freeze({ ...scope })
    const entry: Entry = {
      key,
      scope: own,
      session: this.#setup.make(own, isOfOneCall),
      isOfOneCall,
      inUse: 0,
      isClosing: false,
    }
    this.#entries.set(key, entry)
    return entry
  }

  /** Nobody uses it: it may stay for a while, at the expense of one that was not used for longer. */
  #rest(entry: Entry): void {
    if (entry.isOfOneCall) return void this.#close(entry, true)
    if (!entry.session.life.isInitialized) return this.#giveUp(entry)
    if (typeof this.#setup.scope !== 'function') return
    const { max = IDLE_MAX, ms = IDLE_MS } = this.#setup.idle ?? {}
    this.#entries.delete(entry.key)
    this.#entries.set(entry.key, entry)
    outsideRun(() => {
      entry.timer = setTimeout(() => this.#evict(entry), Math.min(ms, LONGEST_MS)).unref()
    })
    if (this.#entries.size <= max) return
    const idle = [...this.#entries.values()].filter((one) => one.inUse === 0 && !one.isClosing)
    for (const oldest of idle.slice(0, Math.max(idle.length - max, 0))) this.#evict(oldest)
  }

  #evict(entry: Entry): void {
    this.#setup.events.log('info', 'The session of a scope that was not used is closed')
    void this.#close(entry)
  }

  /** It is known until it is closed: a call that arrives meanwhile waits, and then starts anew. */
  async #close(entry: Entry, terminate?: boolean): Promise<void> {
    clearTimeout(entry.timer)
    entry.isClosing = true
    await entry.session.life.dispose({ terminate })
    entry.isClosing = false
    if (entry.inUse === 0) this.#forget(entry)
  }

  /** No session could be opened. One that the server has opened all the same is ended, and `dispose()` waits for it. */
  #giveUp(entry: Entry): void {
    this.#forget(entry)
    const all = (this.#givenUp ??= new Set())
    const ending = entry.session.life.dispose().finally(() => all.delete(ending))
    all.add(ending)
  }

  #forget(entry: Entry): void {
    if (this.#entries.get(entry.key) === entry) this.#entries.delete(entry.key)
  }
}
