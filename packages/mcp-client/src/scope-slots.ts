import { fulfilledWithin, LONGEST_MS, scopeKey } from '@x/internal'
import type { SessionInfo } from '@x/mcp-transport'
import { notExecuted } from './errors.ts'
import type { McpClientError } from './errors.ts'
import { contextRun, currentRun, outsideRun } from './run-scope.ts'
import type { Run, RunEnd } from './run-scope.ts'
import { ScopeSlot } from './scope-slot.ts'
import type { ClientSetup } from './scope-slot.ts'
import type { SessionScope } from './session-scope.ts'
import type { ScopeStatus } from './session-state.ts'

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

/** The slot that serves a call. */
interface Use {
  readonly slot: ScopeSlot
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
export const IDLE_MAX = 1000
const IDLE_MS = 1_800_000
/** Beyond this number, the oldest detached session is terminated. */
const MAX_DETACHED = 1000
/** `run` of a scope that gets the id of the run in which a call is made. */
const CURRENT = 'current'
const OF_CURRENT_RUN: SessionScope = { run: CURRENT }

/**
 * Decides which slot serves a call: one for each scope. The scope is determined at every call, before anything else, and
 * alone decides. Closes slots that are not used, and those of runs with their run.
 */
export class ScopeSlots {
  readonly #setup: ClientSetup
  /** Least recently used first. A slot stays until it is closed, or another one has its scope. */
  readonly #slots = new Map<string, ScopeSlot>()
  /** Disposals of slots that could not be opened. */
  #failed: Set<Promise<void>> | undefined
  /** Sessions of detached runs, until these are continued in this process. A durable store keeps its own. */
  readonly #detached = new Map<string, Detached>()

  constructor(setup: ClientSetup) {
    this.#setup = setup
  }

  /**
   * Returns the slot that serves a call; give it back with `release()`.
   *
   * @param given The scope that the call names. Undefined: that of the client
   * @throws the error of the scope function; McpClientError `NO_RUN` outside a run, if the scope is that of a run
   */
  acquire(given?: SessionScope): Use {
    const { scope, run } = this.#current(given)
    const key = scopeKey(scope)
    const open = this.#slots.get(key)
    const slot = open?.isDisposed === false ? open : this.#add(key, scope, run !== undefined)
    slot.inUse++
    clearTimeout(slot.idleTimer)
    if (run === undefined || slot.runs?.has(run) === true) return { slot, signal: run?.signal }
    slot.runs = (slot.runs ?? new Set<Run>()).add(run)
    run.defer((end) => this.#endRun(slot, run, end))
    return { slot, signal: run.signal }
  }

  /** True if the scope is that of a run, and this code runs in none. @throws the error of the scope function */
  get needsRun(): boolean {
    return currentRun() === undefined && this.#given()?.run === CURRENT
  }

  /** Call this once for each `acquire()`. */
  release(slot: ScopeSlot): void {
    if (--slot.inUse > 0 || slot.isDisposed) return
    if (slot.isInitialized) return this.#keep(slot)
    // No session could be opened. The server may have opened one all the same; the disposal terminates it.
    const { key, scope, kept } = slot
    // Else the next slot must wait for the same disposal, or for the session of a detached run, which it continues.
    if (kept === undefined && !slot.isWaiting) this.#remove(slot)
    if (kept !== undefined) this.#detached.set(key, { scope, info: kept })
    const all = (this.#failed ??= new Set())
    const closing = this.#close(slot, kept === undefined ? undefined : false)
    const disposing = closing.finally(() => all.delete(disposing))
    all.add(disposing)
  }

  /** Returns the slot of the current scope, if there is one. @throws as `acquire()` */
  find(): ScopeSlot | undefined {
    return this.#slots.get(scopeKey(this.#current().scope))
  }

  /** Status of all sessions. */
  get statuses(): readonly ScopeStatus[] {
    return Array.from(this.#slots.values(), ({ scope, status }) => ({ scope, ...status }))
  }

  async dispose({ scope, terminate }: DisposeOptions = {}): Promise<void> {
    const key = scope === undefined ? undefined : scopeKey(scope)
    const slots = [...this.#slots.values()].filter((slot) => key === undefined || slot.key === key)
    const { terminateOnClose = true } = this.#setup.options
    // Only this client can continue these sessions.
    const ends = key === undefined && (terminate ?? terminateOnClose)
    const detached = ends ? [...this.#detached.keys()].map((one) => this.#endDetached(one)) : []
    if (key === undefined) this.#setup.principalLists?.clear()
    const closing = slots.map((slot) => this.#close(slot, terminate))
    await Promise.all([...closing, ...detached, ...(this.#failed ?? [])])
    if (key === undefined) await fulfilledWithin(this.#setup.storedTools.settled(), LISTS_MS)
  }

  #given(): SessionScope | undefined {
    const { scope } = this.#setup.options
    if (scope === 'run') return OF_CURRENT_RUN
    return typeof scope === 'function' ? scope() : scope
  }

  #current(scope: SessionScope | undefined = this.#given()): {
    readonly scope: SessionScope | undefined
    readonly run?: Run
  } {
    if (scope?.run !== CURRENT) return { scope }
    const run = contextRun()
    if (run?.isOpen !== true) throw noRun(run, this.#setup.server)
    return { scope: { ...scope, run: run.id }, run }
  }

  #add(key: string, given: SessionScope | undefined, endsWithRun: boolean): ScopeSlot {
    const scope = given === undefined ? undefined : Object.freeze({ ...given })
    const kept = this.#detached.get(key)?.info
    this.#detached.delete(key)
    const runs = endsWithRun ? new Set<Run>() : undefined
    const after = this.#slots.get(key)?.dispose()
    const slot = new ScopeSlot(this.#setup, { key, scope, runs, kept, after })
    this.#slots.set(key, slot)
    return slot
  }

  /** Keeps an unused slot for a while, and closes the least recently used ones if there are too many. */
  #keep(slot: ScopeSlot): void {
    if (this.#isPermanent(slot)) return
    const { max = IDLE_MAX, ms = IDLE_MS } = this.#setup.options.idleScopes ?? {}
    this.#slots.delete(slot.key)
    this.#slots.set(slot.key, slot)
    outsideRun(() => {
      slot.idleTimer = setTimeout(() => this.#evict(slot), Math.min(ms, LONGEST_MS)).unref()
    })
    if (this.#slots.size <= max) return
    const idle = [...this.#slots.values()].filter(
      (each) => each.inUse === 0 && !each.isDisposed && !this.#isPermanent(each),
    )
    for (const oldest of idle.slice(0, Math.max(idle.length - max, 0))) this.#evict(oldest)
  }

  /** True for the slot of the client's own scope, and for one that ends with its runs. */
  #isPermanent({ key, runs }: ScopeSlot): boolean {
    if (runs !== undefined) return true
    if (typeof this.#setup.options.scope === 'function') return false
    return key === scopeKey(this.#given())
  }

  #evict(slot: ScopeSlot): void {
    this.#setup.events.log('info', 'The session of an unused scope is closed')
    void this.#close(slot)
  }

  /** Closes the session with the last of its runs. A detached session can be continued, also while it is closed. */
  async #endRun(slot: ScopeSlot, run: Run, end: RunEnd): Promise<void> {
    const { key, scope, runs } = slot
    runs?.delete(run)
    if (runs?.size !== 0) return
    // Without a slot, there may be a kept session that could not be opened.
    if (end === 'ended' && this.#detached.has(key)) return this.#endDetached(key)
    if (this.#slots.get(key) !== slot) return
    const info = end === 'detached' ? slot.keptInfo : undefined
    if (info !== undefined) this.#detached.set(key, { scope, info })
    await this.#close(slot, end === 'detached' ? false : undefined)
    const [oldest] = this.#detached.keys()
    if (this.#detached.size > MAX_DETACHED && oldest !== undefined) void this.#endDetached(oldest)
  }

  async #endDetached(key: string): Promise<void> {
    const { scope, info: kept } = this.#detached.get(key) ?? {}
    this.#detached.delete(key)
    if (kept === undefined) return
    const after = this.#slots.get(key)?.dispose()
    await new ScopeSlot(this.#setup, { key, scope, runs: new Set(), kept, after }).endKept()
  }

  async #close(slot: ScopeSlot, terminate?: boolean): Promise<void> {
    clearTimeout(slot.idleTimer)
    await slot.dispose(terminate)
    this.#remove(slot)
  }

  #remove(slot: ScopeSlot): void {
    if (this.#slots.get(slot.key) === slot) this.#slots.delete(slot.key)
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
