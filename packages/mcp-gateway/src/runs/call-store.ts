import { isRecord } from '@x/internal'
import { z } from 'zod'
import type { RunTool } from '../agents/agent.ts'
import { sleep } from '../internal/clock.ts'
import { Sweeper } from '../internal/timers.ts'
import {
  listAll,
  LogFollower,
  whenBack,
  type EventLogs,
  type LogLimits,
} from '../store/gateway-store.ts'
import { nextCall, parseCall, type CallEvent, type CallRecord } from './call-record.ts'
import { maxRunMsOf, type RunStorage } from './order.ts'

export interface CallStoreOptions extends Pick<
  RunStorage,
  'clock' | 'lease' | 'needsInputTtlMs' | 'records' | 'resultTtlMs' | 'timeoutMs'
> {
  /** Tells other processes of changes. `undefined`: there are none. */
  readonly logs: EventLogs | undefined
  readonly onError: (error: Error) => void
  /**
   * Cleans up after a call whose question was not answered in time, or that may have lost its process.
   *
   * @returns `false` if that needs an agent that is not there yet
   */
  readonly onLeft: (found: StoredCall) => Promise<boolean>
}

/** A call, with the version of its record for the next change of it. */
export interface StoredCall {
  readonly call: CallRecord
  readonly version: string
}

/** The first call with an idempotency key. */
export type KeyEntry = Pick<CallRecord, 'args' | 'runId'>

/** @param isForeign another process has changed the call, or may have done so */
type Watcher = (isForeign: boolean) => void

const PREFIX = 'call:'
/** Entry for each idempotency key. It outlives the call that it names, which is never made again. */
const KEYS = 'call-key:'
/** Entry for each task of an account: the store counts them. */
const TASKS = 'call-task:'
/** Entry for each call that has asked and not ended: all processes clean up after them. */
const ASKED = 'call-asked:'
/** Log of all processes: ids of runs whose calls have changed. */
const CHANGES = 'calls'
const CHANGES_LIMITS: LogLimits = { maxEvents: 1000, ttlMs: 60_000 }
/** Calls that have asked are kept this long after they expire, so that a process can clean up. */
const SWEEP_GRACE_MS = 600_000
const SWEEP_MS = 60_000
/** A process that has died looks alive for a shorter time. The next one continues its tasks then. */
const FIRST_SWEEP_MS = 5000
/** Time between two looks at a call of another process. */
const LOOK_MS = 500
/** Time between two attempts to reach a store that is away. */
const RETRY_MS = 1000
const NOT_STORED = 'The state of a call cannot be stored now'

const StoredKey: z.ZodType<KeyEntry> = z.object({ args: z.string(), runId: z.string() })

/** The records of calls. Each change is a compare-and-set. */
export class CallStore {
  readonly #options: CallStoreOptions
  readonly #watchers = new Map<string, Set<Watcher>>()
  readonly #changes: LogFollower | undefined
  readonly #sweeper: Sweeper
  #isEnding = false
  /** Tasks of an earlier process may wait to be continued. No client need ask for them. */
  #mayHaveLeft = true
  readonly #stopping = new AbortController()
  /** Runs whose record may have been written, although its write failed. */
  readonly #unsure = new Set<string>()

  constructor(options: CallStoreOptions) {
    this.#options = options
    const { clock, lease, logs } = options
    const times = { firstMs: FIRST_SWEEP_MS, everyMs: SWEEP_MS }
    this.#sweeper = new Sweeper({ clock, ...times, sweep: () => this.#sweep() })
    if (!logs) return
    this.#changes = new LogFollower(logs, CHANGES, {
      onEvent: ({ event }) => {
        if (!isRecord(event) || event['by'] === lease.id) return
        const { runId } = event
        if (typeof runId === 'string') this.#notify(runId, true)
      },
      onGap: () => {
        for (const runId of this.#watchers.keys()) this.#notify(runId, true)
      },
    })
  }

  /** Resolves when changes by other processes are noticed. @throws GatewayError `UNAVAILABLE` */
  async start(): Promise<void> {
    await this.#changes?.start()
  }

  /** This process stops. From now on, a run that is stopped has not ended if another process can go on with it. */
  get isEnding(): boolean {
    return this.#isEnding
  }

  /** Ends all waits of `settled()`, because this process stops. */
  endWaits(): void {
    this.#isEnding = true
    for (const runId of this.#watchers.keys()) this.#notify(runId, false)
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await Promise.all([this.#sweeper.close(), this.#changes?.stop()])
  }

  /** Calls a function after each change of a call, until the returned function is called. */
  watch(runId: string, watcher: Watcher): () => void {
    const watchers = this.#watchers.get(runId) ?? new Set()
    this.#watchers.set(runId, watchers.add(watcher))
    return () => {
      watchers.delete(watcher)
      if (watchers.size === 0) this.#watchers.delete(runId)
    }
  }

  /** @throws GatewayError `UNAVAILABLE` */
  async read(runId: string): Promise<StoredCall | undefined> {
    const { clock, records } = this.#options
    const found = await records.get(PREFIX + runId)
    const call = parseCall(found?.value)
    if (!found || !call || call.expiresAt <= clock.now()) return undefined
    return { call, version: found.version }
  }

  /**
   * Stores a new call.
   *
   * @returns the stored one if an earlier write whose answer was lost has stored it
   * @throws GatewayError `UNAVAILABLE`
   */
  async create(call: CallRecord): Promise<StoredCall | undefined> {
    return (await this.#put(call, undefined)) ?? this.read(call.runId)
  }

  /**
   * Replaces the version of a call that was read.
   *
   * @returns `undefined` if another process changed it in the meantime
   * @throws GatewayError `UNAVAILABLE`
   */
  replace(before: StoredCall, call: CallRecord): Promise<StoredCall | undefined> {
    return this.#put(call, before)
  }

  /** Returns when a call expires that runs, asks or has ended. @param tool of a call that runs */
  expiryOf(status: CallRecord['state']['status'], isTask: boolean, tool?: RunTool): number {
    const { clock, needsInputTtlMs, resultTtlMs } = this.#options
    const now = clock.now()
    if (status === 'asking') return now + needsInputTtlMs + (isTask ? resultTtlMs : 0)
    return now + resultTtlMs + (status === 'running' && tool ? maxRunMsOf(tool, this.#options) : 0)
  }

  /**
   * Applies an event to the newest version of a call. Writes to the log that a task has failed.
   *
   * @returns the call after it, which is the same if the event came too late; `undefined` if it has expired
   * @throws GatewayError `UNAVAILABLE`
   */
  async apply(found: StoredCall, event: CallEvent): Promise<StoredCall | undefined> {
    let latest: StoredCall | undefined = found
    while (latest) {
      const { call } = latest
      const next = nextCall(call, event, this.#options.clock.now())
      if (next === call) return latest
      const stored = await this.#put(next, latest)
      if (stored) {
        this.#reportFailure(next)
        return stored
      }
      latest = await this.read(call.runId)
    }
    return undefined
  }

  /**
   * Stores what became of an execution. While the store is away, tries again until the call expires: nothing else would.
   *
   * @param onAway called before the second attempt, so that the client does not wait
   * @throws GatewayError `UNAVAILABLE` if the call has expired, or the process stops
   */
  async patiently<Value>(
    { call: { expiresAt } }: StoredCall,
    attempt: () => Promise<Value>,
    onAway?: () => void,
  ): Promise<Value> {
    const { clock, onError } = this.#options
    for (let isFirst = true; ; isFirst = false) {
      try {
        return await attempt()
      } catch (cause) {
        if (this.#isEnding || clock.now() >= expiresAt) throw cause
        if (isFirst) {
          onError(new Error(NOT_STORED, { cause }))
          onAway?.()
        }
      }
      await sleep(clock, RETRY_MS)
    }
  }

  /** Does something as soon as the store can be reached, within `ms`, and until the process stops. */
  whenBack<Value>(ms: number, attempt: () => Promise<Value>): Promise<Value> {
    const { clock } = this.#options
    return whenBack(attempt, { clock, ms, signal: this.#stopping.signal })
  }

  #reportFailure({ runId, state, task, tool }: CallRecord): void {
    if (!task || state.status !== 'ended' || state.end.type !== 'error') return
    const text = `The task of the run ${runId} of ${tool} failed: ${state.end.error.message}`
    this.#options.onError(new Error(text))
  }

  /** @returns `false` if another process changed or deleted it in the meantime. @throws GatewayError `UNAVAILABLE` */
  async delete({ call, version }: StoredCall): Promise<boolean> {
    if (!(await this.#options.records.delete(PREFIX + call.runId, version))) return false
    await this.#dropEntries(call, undefined)
    return true
  }

  /** Returns the number of tasks of an account. @throws GatewayError `UNAVAILABLE` */
  countTasks(account: string): Promise<number> {
    return this.#options.records.count(`${TASKS}${account}:`)
  }

  /** Returns the entry of the first call with a key, which may be this one. @throws GatewayError `UNAVAILABLE` */
  async claimKey(key: string, entry: KeyEntry, expiresAt: number): Promise<KeyEntry> {
    const ttlMs = this.#keyTtl(expiresAt)
    for (;;) {
      const claimed = await this.#options.records.put(KEYS + key, entry, { ttlMs, ifVersion: null })
      if (claimed !== undefined) return entry
      // A call that its agent did not get may have released the key just now.
      const first = await this.keyEntry(key)
      if (first) return first
    }
  }

  #keyTtl(expiresAt: number): number {
    const { clock, resultTtlMs } = this.#options
    return expiresAt - clock.now() + resultTtlMs
  }

  /** Lets a key live as long as its call, which lives longer now. */
  async #extendKey({ expiresAt, key = '', runId }: CallRecord): Promise<void> {
    const { records } = this.#options
    const isOwn = (await this.keyEntry(key))?.runId === runId
    if (isOwn) await records.touch(KEYS + key, this.#keyTtl(expiresAt))
  }

  /** @throws GatewayError `UNAVAILABLE` */
  async keyEntry(key: string): Promise<KeyEntry | undefined> {
    const found = await this.#options.records.get(KEYS + key)
    return StoredKey.safeParse(found?.value).data
  }

  /** Lets a call with the key of another one be made, because the agent did not get that one. @throws GatewayError `UNAVAILABLE` */
  async releaseKey({ key, runId }: CallRecord): Promise<void> {
    const { records } = this.#options
    const found = key === undefined ? undefined : await records.get(KEYS + key)
    const isOwn = StoredKey.safeParse(found?.value).data?.runId === runId
    if (found && isOwn) await records.delete(KEYS + key, found.version)
  }

  /**
   * Waits until a call does not run any more, for `ms` or until the signal aborts. Returns the call then; `undefined` if
   * it was deleted, because its agent did not get it.
   *
   * @param look is called from time to time while the call runs, and returns its newest version
   */
  async settled(
    found: StoredCall,
    {
      look,
      ms,
      signal,
    }: {
      readonly look?: (latest: StoredCall) => Promise<StoredCall>
      readonly ms: number
      readonly signal: AbortSignal
    },
  ): Promise<StoredCall | undefined> {
    const { clock } = this.#options
    const { runId } = found.call
    let latest = found
    let wake: (() => void) | undefined
    const changed = (): void => wake?.()
    const unwatch = this.watch(runId, changed)
    let isLate = false
    const undo = clock.after(ms, () => {
      isLate = true
      changed()
    })
    signal.addEventListener('abort', changed)
    try {
      for (;;) {
        const waiting = new Promise<void>((resolve) => {
          wake = resolve
        })
        // While the store is away, the call counts as running: the client asks again.
        const read = await this.read(runId).catch(() => latest)
        if (!read) return undefined
        latest = read
        if (look && latest.call.state.status === 'running') {
          latest = await look(latest).catch(() => latest)
        }
        const isOver = isLate || signal.aborted || this.#isEnding
        if (latest.call.state.status !== 'running' || isOver) return latest
        const undoLook = clock.after(LOOK_MS, changed)
        await waiting
        undoLook()
      }
    } finally {
      unwatch()
      undo()
      signal.removeEventListener('abort', changed)
    }
  }

  async #put(call: CallRecord, before: StoredCall | undefined): Promise<StoredCall | undefined> {
    const { clock, lease, logs, records } = this.#options
    const { runId } = call
    const grace = call.asked ? SWEEP_GRACE_MS : 0
    const ttlMs = Math.max(1, call.expiresAt - clock.now() + grace)
    const change = { log: CHANGES, event: { runId, by: lease.id }, limits: CHANGES_LIMITS }
    const ifVersion = before?.version ?? null
    let version: string | undefined
    try {
      // New entries come before the record, and old ones go after it: without them, nothing would clean up or count.
      await this.#addEntries(call, before?.call)
      version = await records.put(PREFIX + runId, call, { ttlMs, ifVersion, event: logs && change })
    } catch (cause) {
      this.#notifyWhenBack(runId)
      throw cause
    }
    if (version === undefined) return undefined
    this.#notify(runId, false)
    if (before) await this.#dropEntries(before.call, call).catch(() => {}) // they end by themselves
    return { call, version }
  }

  async #addEntries(call: CallRecord, before: CallRecord | undefined): Promise<void> {
    const { clock, records } = this.#options
    const { asked, expiresAt, key, task } = call
    const isExtended = expiresAt !== before?.expiresAt
    if (before && key !== undefined && expiresAt > before.expiresAt) await this.#extendKey(call)
    const ttlMs = Math.max(1, expiresAt - clock.now())
    if (task && (isExtended || !before?.task)) await records.put(taskEntry(call), 1, { ttlMs })
    if (!asked || !(isExtended || !before?.asked)) return
    await records.put(askedEntry(call), 1, { ttlMs: ttlMs + SWEEP_GRACE_MS })
  }

  /** Deletes the entries of a call that it needs no more. @param after `undefined`: the call was deleted */
  async #dropEntries(before: CallRecord, after: CallRecord | undefined): Promise<void> {
    const { records } = this.#options
    if (before.task && !after?.task) await records.delete(taskEntry(before))
    if (before.asked && !after?.asked) await records.delete(askedEntry(before))
  }

  async #sweep(): Promise<void> {
    const { onLeft, records } = this.#options
    for await (const { key } of listAll(records, ASKED)) {
      if (this.#sweeper.isClosed) return
      const found = await records.get(PREFIX + key.slice(ASKED.length))
      const call = parseCall(found?.value)
      if (!found || !call?.asked) await records.delete(key)
      else await onLeft({ call, version: found.version })
    }
    if (this.#mayHaveLeft) this.#mayHaveLeft = await this.#sweepTasks()
  }

  /** @returns whether a task is left that no process can continue now */
  async #sweepTasks(): Promise<boolean> {
    const { onLeft, records } = this.#options
    let isAnyLeft = false
    for await (const { key } of listAll(records, TASKS)) {
      if (this.#sweeper.isClosed) return isAnyLeft
      const found = await this.read(key.slice(key.lastIndexOf(':') + 1))
      if (found?.call.state.status !== 'running') continue
      const isNamed = await this.#isNamed(found.call)
      if (isNamed === false) await this.delete(found)
      else if (isNamed === undefined || !(await onLeft(found))) isAnyLeft = true
    }
    return isAnyLeft
  }

  /**
   * Returns whether the key of a call names it. If not, the process of the call died before that, and the client has
   * another call with the key, or makes one: to execute both would be a second execution.
   *
   * @returns `undefined` if the process may still claim the key
   */
  async #isNamed({ key, runId, updatedAt }: CallRecord): Promise<boolean | undefined> {
    if (key === undefined) return true
    const first = await this.keyEntry(key)
    const isLate = this.#options.clock.now() - updatedAt > SWEEP_MS
    return first || isLate ? first?.runId === runId : undefined
  }

  /** The record of a write that failed may have been written, and the next attempt finds nothing to change. */
  #notifyWhenBack(runId: string): void {
    const isAsked = this.#unsure.size > 0
    this.#unsure.add(runId)
    if (isAsked) return // one request tells for all runs that the store is back
    const settle = (isBack: boolean): void => {
      const runIds = [...this.#unsure]
      this.#unsure.clear()
      if (isBack) for (const each of runIds) this.#notify(each, true)
    }
    const { records } = this.#options
    void this.whenBack(CHANGES_LIMITS.ttlMs, () => records.get(PREFIX + runId)).then(
      () => settle(true),
      () => settle(false), // watchers ask again
    )
  }

  #notify(runId: string, isForeign: boolean): void {
    for (const watcher of this.#watchers.get(runId) ?? []) watcher(isForeign)
  }
}

function taskEntry({ runId, task }: CallRecord): string {
  return `${TASKS}${task?.account ?? task?.owner}:${runId}`
}

function askedEntry({ runId }: CallRecord): string {
  return ASKED + runId
}
