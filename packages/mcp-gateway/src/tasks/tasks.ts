import { ProtocolError, type CallToolResult } from '@modelcontextprotocol/server'

import { inTime } from '../internal/timers.ts'
import type { TaskSettings } from '../options.ts'
import type { KeyClaim } from '../runs/idempotency.ts'
import type { RunOrder, RunProgress } from '../runs/order.ts'
import { whenBack } from '../store/gateway-store.ts'
import type { ProcessLease } from '../store/lease.ts'
import {
  DIED,
  isQuestions,
  TaskExecutions,
  type CallOutcome,
  type Execute,
  type PreparedTask,
  type Questions,
  type TaskExecutionsOptions,
} from './task-executions.ts'
import {
  keyOf,
  newTaskId,
  TaskRecords,
  type StoredTask,
  type TaskRecordsOptions,
  type TaskReference,
} from './task-records.ts'
import { newTask, nextTask, toDetailedTask, type Task, type TaskEvent } from './task.ts'

export interface TasksOptions extends TaskSettings, TaskExecutionsOptions, TaskRecordsOptions {
  readonly lease: ProcessLease
}

/** A call that may become a task. */
export interface TaskCall {
  /** Hash of the caller that may use the task. */
  readonly owner: string
  readonly tool: string
  /** Names the task, if the call becomes one. */
  readonly order: RunOrder
  /** An earlier call with the same idempotency key may have become this task. */
  readonly isRepeated: boolean
  /** Returns the id that the first call with the same idempotency key has chosen. */
  readonly claimedId: () => Promise<string | undefined>
  /** Claims the idempotency key for the task, before an engine executes it. `undefined`: the call has none. */
  readonly claim: () => Promise<KeyClaim | undefined>
  /** `true`: from the start. `false`: after two seconds, or at the first question. */
  readonly isAlways: boolean
  readonly maxRunMs: number
  /** Aborts when the client leaves. That cancels a call which has not become a task. */
  readonly signal: AbortSignal
  /** Gets progress until the call becomes a task. */
  readonly progress: RunProgress | undefined
  readonly execute: Execute
}

export interface BegunTask {
  readonly task: Task
  /** It is the task of an earlier call with the same idempotency key. */
  readonly isReplayed: boolean
}

interface CreatedTask {
  readonly found: StoredTask
  /** `false`: another request for the same call has created it. */
  readonly isOwn: boolean
  /** The idempotency key of the call names the task. */
  readonly isClaimed: boolean
  /** Releases the lease of this process, if it executes the task. */
  readonly release: (() => void) | undefined
}

/** Time after which a call becomes a task. */
const PATIENCE_MS = 2000
/** In this time after it has claimed a key, a process stores the task. */
const CLAIM_MS = 60_000
/** Time for which a call waits for a store that is away. Redis restarts within it. */
const AWAY_MS = 5000
const STAYS_CALL = 'A call cannot become a task, because the store is away'

/**
 * Calls that outlive their requests (SEP-2663). A task is a record in the store: each process can read it, answer its
 * questions and cancel it. The process that began an execution executes it to its end. If that process dies, the next
 * reader of the record ends the task as failed; with an engine, another process continues the call.
 */
export class Tasks {
  readonly executions: TaskExecutions
  readonly #options: TasksOptions
  readonly #records: TaskRecords
  /** Number of tasks that are being stored, by owner. The store does not count them yet. */
  readonly #creating = new Map<string, number>()

  constructor(options: TasksOptions) {
    this.#options = options
    this.#records = new TaskRecords(options)
    this.executions = new TaskExecutions(this.#records, options)
  }

  /**
   * Begins a call. Returns its outcome, or its task if it takes longer. A call for which no task can be stored stays a
   * call.
   */
  async begin(call: TaskCall): Promise<CallOutcome | BegunTask> {
    const { isAlways, isRepeated, order, owner, signal } = call
    const { clock, engine } = this.#options
    const { taskId } = order
    if (isRepeated && taskId !== undefined) {
      // If the store is away, the key of the call is checked again.
      const found = await this.#records.read(keyOf({ owner, taskId })).catch(() => undefined)
      if (found) return this.#replayed(found)
    }
    let created = isAlways || engine ? await this.#create(call) : undefined
    if (created && !created.isOwn) return this.#other(created)
    if (created && engine) return this.#queue(call, created)
    const execution = this.executions.beginCall(call.execute, call.progress)
    const { outcome } = execution
    const leave = (): void => execution.stop(signal.reason)
    if (signal.aborted) leave()
    else signal.addEventListener('abort', leave, { once: true })
    try {
      if (engine) return await outcome
      if (!created) {
        const first = await inTime<CallOutcome | undefined>(outcome, {
          clock,
          ms: PATIENCE_MS,
          late: () => undefined,
        })
        if (first && (!isQuestions(first) || first.isBeforeTask === true)) return first
        created = await this.#create(call, first, execution.remote)
        if (!created) return await outcome
      }
      if (!created.isOwn) {
        execution.stop() // the execution is the same, and another request waits for it
        return await this.#other(created)
      }
      const { found, release } = created
      if (found.task.status === 'working') this.executions.attend(execution, found)
      void execution.done.then(release)
      return { task: found.task, isReplayed: false }
    } finally {
      signal.removeEventListener('abort', leave)
    }
  }

  /** Returns a task with its result, error or open questions. @throws ProtocolError -32602; GatewayError `UNAVAILABLE` */
  async get(reference: TaskReference): Promise<Readonly<Record<string, unknown>>> {
    const task = await this.#current(await this.#records.find(reference))
    return toDetailedTask(task)
  }

  /**
   * Stores answers. With the last one, the call is continued.
   *
   * @param prepare returns what continues the call of a task
   * @throws ProtocolError -32602; GatewayError `UNAVAILABLE`
   */
  async update(
    reference: TaskReference,
    responses: Readonly<Record<string, unknown>>,
    prepare: (task: Task) => PreparedTask,
  ): Promise<void> {
    const { clock, engine, lease } = this.#options
    const event: TaskEvent = { type: 'answered', responses, process: engine ? '' : lease.id }
    for (;;) {
      const found = await this.#records.find(reference)
      const task = nextTask(found.task, event, clock.now())
      if (task === found.task) return
      const isStored =
        task.status === 'working'
          ? await this.executions.resume({ ...found, task }, prepare(task))
          : await this.#records.put(found.key, task, found.version)
      if (isStored) return
    }
  }

  /**
   * Waits until the task of an engine ends or asks, for at most `ms`: for a repeat of its call by a client that does not
   * know tasks.
   *
   * @returns `undefined` if no task of an engine has this id
   * @throws GatewayError `UNAVAILABLE`
   */
  async join(reference: TaskReference, signal: AbortSignal, ms: number): Promise<Task | undefined> {
    if (!this.#options.engine) return undefined
    await this.#records.start()
    const found = await this.#records.read(keyOf(reference))
    if (!found) return undefined
    await this.#current(found)
    return this.#records.settled(found, signal, ms)
  }

  /** Ends a task as cancelled, unless it has ended. @throws ProtocolError -32602; GatewayError `UNAVAILABLE` */
  async cancel(reference: TaskReference): Promise<void> {
    const found = await this.#records.find(reference)
    await this.#records.apply(found, { type: 'cancelled' })
    await this.executions.stop(found)
  }

  /** Resolves when the ends of all executions of this process are stored. The runs are stopped by `Runs`. */
  async close(): Promise<void> {
    this.#records.endWaits() // clients of an engine's tasks ask another process for the results
    await this.executions.close()
    await this.#records.stop()
  }

  /** Returns the task, after it was continued or ended if the process that executed it died. */
  async #current(found: StoredTask): Promise<Task> {
    const isExecuted = await this.executions.isExecuted(found.task)
    return isExecuted ? found.task : this.executions.takeOver(found)
  }

  /** Returns the task that another request for the same call has created. */
  #other({ found, release }: CreatedTask): Promise<BegunTask> {
    release?.()
    return this.#replayed(found)
  }

  /** Returns a task that existed before the request. If the store is away, its client learns later how it ended. */
  async #replayed(found: StoredTask): Promise<BegunTask> {
    return { task: await this.#current(found).catch(() => found.task), isReplayed: true }
  }

  /** Queues a task that any process may execute, and waits for an early end. @throws ProtocolError of the call */
  async #queue(
    { isAlways, owner, signal }: TaskCall,
    { found, isClaimed }: CreatedTask,
  ): Promise<CallToolResult | BegunTask> {
    await this.executions.submit(found)
    const task = isAlways ? found.task : await this.#records.settled(found, signal, PATIENCE_MS)
    if (signal.aborted && !isClaimed) {
      await this.cancel({ owner, taskId: task.taskId }) // no client has its id
      signal.throwIfAborted()
    }
    const isEarlyEnd = !isAlways && (task.status === 'completed' || task.status === 'failed')
    if (!isEarlyEnd) return { task, isReplayed: false }
    const { key } = found
    const kept = isClaimed ? this.#records.keepEarly(key, task) : this.#records.delete(key)
    await kept.catch(() => {}) // then the task stays until it expires
    return resultOf(task)
  }

  /**
   * Stores a call as a task. For an engine, waits for a store that is away: the call would run without its guarantees.
   *
   * @param questions of a call that has begun
   * @param remote as `Task.remote`
   * @returns `undefined` for a call that stays a call: its caller has too many tasks, or the store is away
   * @throws ProtocolError -32602 for an idempotency key with other arguments
   */
  async #create(
    call: TaskCall,
    questions?: Questions,
    remote?: unknown,
  ): Promise<CreatedTask | undefined> {
    const { clock, engine, onError } = this.#options
    try {
      const create = () => this.#tryCreate(call, questions, remote)
      return await whenBack(create, { clock, ms: engine ? AWAY_MS : 0 })
    } catch (cause) {
      if (cause instanceof ProtocolError) throw cause
      onError(new Error(STAYS_CALL, { cause }))
      return undefined
    }
  }

  /** For an engine, first claims the idempotency key of the call. @throws GatewayError `UNAVAILABLE`; ProtocolError */
  async #tryCreate(
    call: TaskCall,
    questions: Questions | undefined,
    remote: unknown,
  ): Promise<CreatedTask | undefined> {
    const { maxRunMs, order, owner, tool } = call
    const { clock, engine, lease, maxPerPrincipal, ttlMs } = this.#options
    const others = this.#creating.get(owner) ?? 0
    this.#creating.set(owner, others + 1)
    let release: (() => void) | undefined
    let created: CreatedTask | undefined
    try {
      // Before the claim: a call that stays a call claims its key itself.
      const isFull = (await this.#records.count(owner)) + others >= maxPerPrincipal
      if (isFull || this.executions.isClosed) return undefined
      await this.#records.start()
      release = engine ? undefined : await lease.hold()
      const claim = engine && (await call.claim())
      if (claim && claim.taskId === undefined) return undefined // the first call was no task
      const claimedId = engine ? claim?.taskId : await call.claimedId()
      const now = clock.now()
      const taskId = claimedId ?? order.taskId ?? newTaskId(now)
      const key = keyOf({ owner, taskId })
      const isClaimed = claim !== undefined
      const expiresAt = now + maxRunMs + ttlMs
      const process = engine ? '' : lease.id
      const task = newTask({ taskId, tool, order, process, expiresAt, remote }, now)
      const asked = questions && this.executions.toEvent(task, questions)
      // The process of the first call died before it could store the task, or the task has expired.
      const isTooLate = claim?.isNew === false && claim.ageMs > CLAIM_MS
      const first = asked ? nextTask(task, asked, now) : task
      let stored = isTooLate ? undefined : await this.#records.put(key, first, null)
      if (stored && claim?.isNew === false && (await this.#records.readEarly(key))) {
        await this.#records.delete(key)
        stored = undefined
      }
      // Else a repeat of the call was faster, or this one has stored it by a write whose answer was lost.
      const found = stored ?? (await this.#records.read(key))
      if (!found) return undefined
      const isOwn = found.task.runId === order.runId
      created = { found, isOwn, isClaimed, release }
      return created
    } finally {
      if (!created) release?.()
      const left = (this.#creating.get(owner) ?? 0) - 1
      if (left > 0) this.#creating.set(owner, left)
      else this.#creating.delete(owner)
    }
  }
}

/** @throws ProtocolError the error of a task that has failed */
export function resultOf({ error, result }: Task): CallToolResult {
  if (result) return result
  const { code, message, data } = error ?? DIED
  throw new ProtocolError(code, message, data)
}
