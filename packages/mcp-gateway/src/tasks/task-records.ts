import { ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/server'

import { isRecord } from '@x/internal'
import type { ArtifactCaller } from '../files/namespaces.ts'
import type { Clock } from '../internal/clock.ts'
import type { Principal } from '../internal/principal.ts'
import { randomHex } from '../internal/random-hex.ts'
import { hashOf } from '../runs/order.ts'
import {
  LogFollower,
  whenBack,
  type EventLogs,
  type LogLimits,
  type Records,
} from '../store/gateway-store.ts'
import type { ProcessLease } from '../store/lease.ts'
import { nextTask, parseTask, type Task, type TaskEvent } from './task.ts'

export interface TaskRecordsOptions {
  readonly records: Records
  /** Tells other processes of changes. `undefined`: there are none. */
  readonly logs: EventLogs | undefined
  readonly lease: Pick<ProcessLease, 'id'>
  readonly clock: Clock
  readonly onError: (error: Error) => void
}

/** Names a task, and the caller that asks for it. */
export interface TaskReference {
  /** Hash of the caller that may use the task. */
  readonly owner: string
  readonly taskId: string
}

/** A task, with the version of its record for the next change of it. */
export interface StoredTask {
  readonly key: string
  readonly task: Task
  readonly version: string
}

/** @param isForeign another process has changed the task, or may have done so */
type Watcher = (isForeign: boolean) => void

const PREFIX = 'task:'
/** In front of the keys of tasks that ended before their calls were answered. */
const EARLY = 'early-'
/** Log of all processes: ids of tasks that have changed. */
const CHANGES = 'tasks'
const CHANGES_LIMITS: LogLimits = { maxEvents: 1000, ttlMs: 60_000 }

export class TaskRecords {
  readonly #options: TaskRecordsOptions
  readonly #watchers = new Map<string, Set<Watcher>>()
  readonly #changes: LogFollower | undefined
  #isEnding = false

  constructor(options: TaskRecordsOptions) {
    this.#options = options
    const { lease, logs } = options
    if (!logs) return
    this.#changes = new LogFollower(logs, CHANGES, {
      onEvent: ({ event }) => {
        if (!isRecord(event) || event['by'] === lease.id) return
        const { taskId } = event
        if (typeof taskId === 'string') this.#notify(taskId, true)
      },
      onGap: () => {
        for (const taskId of this.#watchers.keys()) this.#notify(taskId, true)
      },
    })
  }

  /** Resolves when changes by other processes are noticed. @throws GatewayError `UNAVAILABLE` */
  async start(): Promise<void> {
    await this.#changes?.start()
  }

  async stop(): Promise<void> {
    await this.#changes?.stop()
  }

  /** Calls a function after each change of a task, until the returned function is called. */
  watch(taskId: string, watcher: Watcher): () => void {
    const watchers = this.#watchers.get(taskId) ?? new Set()
    this.#watchers.set(taskId, watchers.add(watcher))
    return () => {
      watchers.delete(watcher)
      if (watchers.size === 0) this.#watchers.delete(taskId)
    }
  }

  /** Returns the number of tasks of a caller. @throws GatewayError `UNAVAILABLE` */
  count(owner: string): Promise<number> {
    return this.#options.records.count(keyOf({ owner, taskId: '' }))
  }

  /** @throws ProtocolError -32602; GatewayError `UNAVAILABLE` */
  async find(reference: TaskReference): Promise<StoredTask> {
    const found = await this.read(keyOf(reference))
    if (found) return found
    // The same for a task of somebody else.
    const text = `Unknown task "${reference.taskId.slice(0, 13)}…": it does not exist, has expired, or belongs to another caller. Whether its call was executed is not known.`
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, text, { reason: 'unknown_task' })
  }

  /** @throws GatewayError `UNAVAILABLE` */
  async read(key: string): Promise<StoredTask | undefined> {
    return (await this.#readAt(key)) ?? this.readEarly(key)
  }

  /** Reads a task for which `keepEarly()` was called. @throws GatewayError `UNAVAILABLE` */
  readEarly(key: string): Promise<StoredTask | undefined> {
    return this.#readAt(EARLY + key)
  }

  /**
   * Keeps a task that ended before its call was answered for repeats of the call. It does not count for the limit of its
   * caller, which has not got its id.
   *
   * @throws GatewayError `UNAVAILABLE`
   */
  async keepEarly(key: string, task: Task): Promise<void> {
    const { clock, records } = this.#options
    const ttlMs = Math.max(1, task.expiresAt - clock.now())
    await records.put(EARLY + key, task, { ttlMs })
    await records.delete(key)
  }

  async #readAt(key: string): Promise<StoredTask | undefined> {
    const { clock, records } = this.#options
    const found = await records.get(key)
    const task = parseTask(found?.value)
    if (!found || !task || task.expiresAt <= clock.now()) return undefined
    return { key, task, version: found.version }
  }

  /**
   * @param version `null`: the task is new
   * @returns `undefined` if another process changed the record in the meantime
   * @throws GatewayError `UNAVAILABLE`
   */
  async put(key: string, task: Task, ifVersion: string | null): Promise<StoredTask | undefined> {
    const { clock, lease, logs, records } = this.#options
    const { expiresAt, taskId } = task
    const ttlMs = Math.max(1, expiresAt - clock.now())
    const change = { log: CHANGES, event: { taskId, by: lease.id }, limits: CHANGES_LIMITS }
    let version: string | undefined
    try {
      version = await records.put(key, task, { ttlMs, ifVersion, event: logs && change })
    } catch (cause) {
      // The record may have been written, and the next attempt finds nothing to change.
      void whenBack(() => records.get(key), { clock, ms: CHANGES_LIMITS.ttlMs }).then(
        () => this.#notify(taskId, true),
        () => {}, // watchers ask again
      )
      throw cause
    }
    if (version === undefined) return undefined
    this.#notify(taskId, false)
    return { key, task, version }
  }

  /** Applies an event to the newest version of a task, and returns the task after it. @throws GatewayError `UNAVAILABLE` */
  async apply(found: StoredTask, event: TaskEvent): Promise<Task> {
    let latest: StoredTask | undefined = found
    while (latest) {
      const { key, task, version } = latest
      const next = nextTask(task, event, this.#options.clock.now())
      if (next === task) return next
      if (await this.put(key, next, version)) {
        if (event.type === 'failed') {
          const text = `The task of the run ${task.runId} of ${task.tool} failed: ${event.error.message}`
          this.#options.onError(new Error(text))
        }
        return next
      }
      latest = await this.read(key)
    }
    return found.task // it has expired
  }

  /** @throws GatewayError `UNAVAILABLE` */
  async delete(key: string): Promise<void> {
    await this.#options.records.delete(key)
  }

  /** Ends all waits of `settled()`, because this process stops. */
  endWaits(): void {
    this.#isEnding = true
    for (const taskId of this.#watchers.keys()) this.#notify(taskId, false)
  }

  /** Waits until a task does not work any more, for `ms` or until the signal aborts. Returns the task then. */
  async settled(found: StoredTask, signal: AbortSignal, ms: number): Promise<Task> {
    const { clock } = this.#options
    let latest = found.task
    let wake: (() => void) | undefined
    const changed = (): void => wake?.()
    const unwatch = this.watch(latest.taskId, changed)
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
        // While the store is away, the task counts as working: the client asks again.
        latest = (await this.read(found.key).catch(() => undefined))?.task ?? latest
        const isOver = isLate || signal.aborted || this.#isEnding
        if (latest.status !== 'working' || isOver) return latest
        await waiting
      }
    } finally {
      unwatch()
      undo()
      signal.removeEventListener('abort', changed)
    }
  }

  #notify(taskId: string, isForeign: boolean): void {
    for (const watcher of this.#watchers.get(taskId) ?? []) watcher(isForeign)
  }
}

export function keyOf({ owner, taskId }: TaskReference): string {
  return `${PREFIX}${owner}:${taskId}`
}

/** Returns an id that cannot be guessed. Later ids sort behind earlier ones, where stores add keys faster. */
export function newTaskId(now: number): string {
  return `task_${Math.floor(now).toString(36)}${randomHex(16)}`
}

/** Owners without a scope. Requests with one credential often share the object of their principal. */
const owners = new WeakMap<Principal, string>()

/** Returns a hash that only the same caller has. */
export function taskOwnerOf({ principal, scope }: ArtifactCaller): string {
  if (scope !== undefined) return hashOf([principal.id, scope])
  const known = owners.get(principal)
  if (known !== undefined) return known
  const owner = hashOf([principal.id, null])
  owners.set(principal, owner)
  return owner
}
