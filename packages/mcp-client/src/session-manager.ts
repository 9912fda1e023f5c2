import { fulfilledWithin } from '@x/internal'
import type { SessionInfo } from '@x/mcp-transport'
import { LONGEST_MS } from './deadline.ts'
import { notExecuted } from './errors.ts'
import type { McpClientError } from './errors.ts'
import { contextRun, currentRun, outsideRun } from './run-scope.ts'
import type { Run, RunEnd } from './run-scope.ts'
import { Session } from './session.ts'
import type { SessionSetup } from './session.ts'
import { scopeKey } from './session-scope.ts'
import type { SessionScope } from './session-scope.ts'
import type { DeclinedQuestion, ScopeStatus } from './session-state.ts'

/** Which unused sessions of other scopes than that of the client are kept. */
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
  /** Runs that share the session. The last of them closes it. Undefined if it belongs to no run. */
  runs: Set<Run> | undefined
}

/** The session that serves a call. */
interface Use {
  readonly entry: Entry
  /** Aborts with the run that the call is made in. */
  readonly signal: AbortSignal | undefined
}

/** Session of a detached run. */
interface Detached {
  readonly scope: SessionScope | undefined
  readonly info: SessionInfo
}

/** Time that `dispose()` waits until lists of tools are stored, in milliseconds. */
const LISTS_MS = 2000
const IDLE_MAX = 1000
const IDLE_MS = 1_800_000
/** Beyond this number, the oldest detached session is terminated. */
const MAX_DETACHED = 1000
/** `run` of a scope that gets the id of the run in which a call is made. */
const CURRENT = 'current'
const OF_CURRENT_RUN: SessionScope = { run: CURRENT }

/**
 * Decides which session serves a call: one for each scope. The scope is determined at every call, before anything
 * else, and alone decides. Closes sessions that are not used, and sessions of runs with their run.
 */
export class SessionManager {
  readonly #setup: SessionSetup
  /** Least recently used first. */
  readonly #entries = new Map<string, Entry>()
  /** Disposals of sessions that could not be opened. */
  #failed: Set<Promise<void>> | undefined
  /** Sessions of detached runs, until these are continued in this process. A durable store keeps its own. */
  readonly #detached = new Map<string, Detached>()

  constructor(setup: SessionSetup) {
    this.#setup = setup
  }

  /**
   * Returns the session that serves a call; give it back with `release()`.
   *
   * @param given The scope that the call names. Undefined: that of the client
   * @throws the error of the scope function; McpClientError `NO_RUN` outside a run, if the scope is that of a run
   */
  acquire(given?: SessionScope): Use {
    const { scope, run } = this.#current(given)
    const key = scopeKey(scope)
    const entry = this.#entries.get(key) ?? this.#add(key, scope, run !== undefined)
    entry.inUse++
    clearTimeout(entry.timer)
    if (run === undefined || entry.runs?.has(run) === true) return { entry, signal: run?.signal }
    entry.runs = (entry.runs ?? new Set<Run>()).add(run)
    run.defer((end) => this.#endRun(entry, run, end))
    return { entry, signal: run.signal }
  }

  /** True if the scope is that of a run, and this code runs in none. @throws the error of the scope function */
  get needsRun(): boolean {
    return currentRun() === undefined && this.#given()?.run === CURRENT
  }

  /** Call this once for each `acquire()`. */
  release(entry: Entry): void {
    if (--entry.inUse > 0 || entry.isClosing) return
    if (entry.session.isInitialized) this.#keep(entry)
    else this.#closeFailed(entry)
  }

  /** Returns the session of the current scope, if there is one. @throws as `acquire()` */
  find(): Session | undefined {
    return this.#entries.get(scopeKey(this.#current().scope))?.session
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
    const { terminateOnClose = true } = this.#setup.options
    // Only this client can continue these sessions.
    const ends = key === undefined && (terminate ?? terminateOnClose)
    const detached = ends ? [...this.#detached.keys()].map((one) => this.#endDetached(one)) : []
    await Promise.all([...closing, ...detached, ...(this.#failed ?? [])])
    if (key === undefined) await fulfilledWithin(this.#setup.storedTools.settled(), LISTS_MS)
  }

  #given(): SessionScope | undefined {
    const { scope } = this.#setup.options
    if (scope === 'run') return OF_CURRENT_RUN
    return typeof scope === 'function' ? scope() : scope
  }

  #current(given: SessionScope | undefined = this.#given()): {
    readonly scope: SessionScope | undefined
    readonly run?: Run
  } {
    const scope = given
    if (scope?.run !== CURRENT) return { scope }
    const run = contextRun()
    if (run?.isOpen !== true) throw noRun(run, this.#setup.server)
    return { scope: { ...scope, run: run.id }, run }
  }

  #add(key: string, scope: SessionScope | undefined, endsWithRun: boolean): Entry {
    const own = scope === undefined ? undefined : Object.freeze({ ...scope })
    const kept = this.#detached.get(key)?.info
    this.#detached.delete(key)
    const session = new Session(this.#setup, own, { endsWithRun, kept })
    const runs = endsWithRun ? new Set<Run>() : undefined
    const entry: Entry = { key, session, inUse: 0, isClosing: false, timer: undefined, runs }
    this.#entries.set(key, entry)
    return entry
  }

  /** Keeps an unused session for a while, and closes the least recently used ones if there are too many. */
  #keep(entry: Entry): void {
    const { idleScopes } = this.#setup.options
    if (this.#isPermanent(entry)) return
    const { max = IDLE_MAX, ms = IDLE_MS } = idleScopes ?? {}
    this.#entries.delete(entry.key)
    this.#entries.set(entry.key, entry)
    outsideRun(() => {
      entry.timer = setTimeout(() => this.#evict(entry), Math.min(ms, LONGEST_MS)).unref()
    })
    if (this.#entries.size <= max) return
    const idle = [...this.#entries.values()].filter(
      (each) => each.inUse === 0 && !each.isClosing && !this.#isPermanent(each),
    )
    for (const oldest of idle.slice(0, Math.max(idle.length - max, 0))) this.#evict(oldest)
  }

  /** True for the session of the client's own scope, and for one that ends with its runs. */
  #isPermanent({ key, runs }: Entry): boolean {
    if (runs !== undefined) return true
    return typeof this.#setup.options.scope !== 'function' && key === scopeKey(this.#given())
  }

  #evict(entry: Entry): void {
    this.#setup.events.log('info', 'The session of an unused scope is closed')
    void this.#close(entry)
  }

  /** Closes the session with the last of its runs. A detached session can be continued, also while it is closed. */
  async #endRun(entry: Entry, run: Run, end: RunEnd): Promise<void> {
    entry.runs?.delete(run)
    if (entry.runs?.size !== 0 || this.#entries.get(entry.key) !== entry) return
    if (end === 'ended') return this.#close(entry)
    const kept = entry.session.keepInfo()
    await this.#close(entry, false)
    if (kept === undefined || this.#entries.has(entry.key)) return
    this.#detached.set(entry.key, { scope: entry.session.scope, info: kept })
    const [oldest] = this.#detached.keys()
    if (this.#detached.size > MAX_DETACHED && oldest !== undefined) void this.#endDetached(oldest)
  }

  async #endDetached(key: string): Promise<void> {
    const detached = this.#detached.get(key)
    this.#detached.delete(key)
    if (detached === undefined) return
    const { scope, info: kept } = detached
    await new Session(this.#setup, scope, { endsWithRun: true, kept }).endKept()
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

function noRun(run: Run | undefined, server: string): McpClientError {
  const cause = run?.signal.aborted === true ? { cause: run.signal.reason } : {}
  const where =
    run === undefined
      ? 'outside a run: call it inside runInSessionScope()'
      : run.signal.aborted
        ? `in ${run.id}, which was aborted`
        : `in ${run.id}, which has ended: await what is started in a run`
  const message = `MCP server "${server}" was called ${where}`
  return notExecuted('NO_RUN', message, { server, ...cause })
}
