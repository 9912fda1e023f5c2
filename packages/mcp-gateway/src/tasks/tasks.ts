import { ProtocolError, ProtocolErrorCode, type CallToolResult } from '@modelcontextprotocol/server'

import { isRecord } from '@x/internal'
import type { Clock } from '../internal/clock.ts'
import { inTime } from '../internal/timers.ts'
import type { Principal } from '../internal/principal.ts'
import { randomHex } from '../internal/random-hex.ts'
import type { TaskSettings } from '../options.ts'
import { toInputRequests } from '../runs/forms.ts'
import {
  hashOf,
  type RunOrder,
  type RunProgress,
  type RunSink,
  type ToolOutcome,
} from '../runs/order.ts'
import {
  LogFollower,
  type EventLogs,
  type LogLimits,
  type Records,
} from '../store/gateway-store.ts'
import type { ProcessLease } from '../store/lease.ts'
import { GatewayError } from '../errors.ts'
import type { RunAttempt, RunEngine } from '../runs/engine.ts'
import {
  isTerminal,
  newTask,
  nextTask,
  parseTask,
  toDetailedTask,
  toTaskFields,
  type Task,
  type TaskError,
  type TaskEvent,
} from './task.ts'

export interface TasksOptions extends TaskSettings {
  readonly records: Records
  /** Tells other processes of changes. `undefined`: there are none. */
  readonly logs: EventLogs | undefined
  /** Shows other processes that this one still executes its tasks. */
  readonly lease: ProcessLease
  /** Executes tasks in any process. `undefined`: a task ends with the process that began it. */
  readonly engine: RunEngine | undefined
  /** Returns what executes a stored call. @throws if its agent is not there */
  readonly prepare: (task: Task) => PreparedTask
  /** Time that a question waits for its answer. */
  readonly needsInputTtlMs: number
  readonly clock: Clock
  readonly onError: (error: Error) => void
}

/** What executes the call of a stored task, or continues it with the answers to its last questions. */
export interface PreparedTask {
  readonly execute: Execute
  /** Time after which the execution has ended. */
  readonly maxRunMs: number
  /** Whether another process can continue the call after the one that executed it died. */
  readonly canContinue: boolean
  /** Lets the agent delete what it kept for the call. */
  readonly forget: () => void
}

/** Questions of an agent that has not finished. */
export type Questions = Extract<ToolOutcome, { type: 'input' }>

/** Executes a call, up to its result or its next questions. */
type Execute = (sink: RunSink) => Promise<CallToolResult | Questions>

/** Continues a call with answers. */
export interface Continuation {
  readonly execute: Execute
  /** Time after which the execution has ended. */
  readonly maxRunMs: number
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
  /** Claims the idempotency key for the task, before an engine executes it. `undefined`: there is no key. */
  readonly claim: () => Promise<TaskClaim | undefined>
  /** `true`: from the start. `false`: after two seconds, or at the first question. */
  readonly isAlways: boolean
  /** Time after which the execution has ended. */
  readonly maxRunMs: number
  /** Aborts when the client leaves. That cancels a call which is no task yet. */
  readonly signal: AbortSignal
  /** Gets progress until the call becomes a task. */
  readonly progress: RunProgress | undefined
  readonly execute: Execute
}

/** The first call with an idempotency key. */
interface TaskClaim {
  /** `undefined`: it was no task of an engine. */
  readonly taskId: string | undefined
  readonly isNew: boolean
  readonly ageMs: number
}

/** A call that became a task. */
export interface BegunTask {
  readonly task: Task
  /** It is the task of an earlier call with the same idempotency key. */
  readonly isReplayed: boolean
}

/** Names a task, and the caller that asks for it. */
export interface TaskReference {
  readonly owner: string
  readonly taskId: string
}

type TaskListener = (task: Readonly<Record<string, unknown>>) => void

/** Tasks of one caller to listen to. */
export interface TaskFeed {
  readonly taskIds: readonly string[]
  /** Calls a listener with each task now, and after each change. */
  begin(listener: TaskListener): void
  end(): void
}

/** An execution in this process. */
interface Running {
  /** The task when the execution began. */
  readonly found: Found
  readonly stop: AbortController
  /** Resolves when its end is stored, with `true` for the end of the call. */
  readonly done: Promise<boolean>
  /** The newest progress. */
  message: string | undefined
  /** Undoes the timer that stores the message. */
  undo: (() => void) | undefined
}

interface CreatedTask {
  readonly found: Found
  /** `false`: another request for the same call has created it. */
  readonly isOwn: boolean
  /** Releases the lease of this process. */
  readonly release: () => void
}

interface Found {
  /** Key of the record. */
  readonly key: string
  readonly task: Task
  readonly version: string
}

const PREFIX = 'task:'
/** Log of all processes: ids of tasks that have changed. */
const CHANGES = 'tasks'
const CHANGES_LIMITS: LogLimits = { maxEvents: 1000, ttlMs: 60_000 }
/** Time after which a call becomes a task. */
const PATIENCE_MS = 2000
/** Time between two attempts: to reach a store that is away, and to find room for a call. */
const RETRY_MS = 1000
/** Time between two messages of progress that are stored. */
const PROGRESS_MS = 1000
const MAX_MESSAGE_CHARS = 1000
/** In this time after it has claimed a key, a process stores the task. */
const CLAIM_MS = 60_000
/** Processes that may die within one call. Then the call is to blame. */
const MAX_CLAIMS = 5
const STAYS_CALL = 'A call cannot become a task, because the store is away'
/** In this time, a process that has stored a task notes that it executes it. */
const BEGIN_MS = 5000

/**
 * Calls that outlive their requests (SEP-2663). A task is a record in the store: each process can read it, answer its
 * questions and cancel it. The process that began an execution executes it to its end. If that process dies, the next
 * reader of the record ends the task as failed; with an engine, another process continues the call.
 */
export class Tasks {
  readonly #options: TasksOptions
  readonly #running = new Map<string, Running>()
  /** By task id. */
  readonly #listeners = new Map<string, Set<() => void>>()
  /** Changes by other processes. */
  readonly #changes: LogFollower | undefined
  #working: Promise<() => Promise<void>> | undefined
  #isClosed = false

  constructor(options: TasksOptions) {
    this.#options = options
    const { lease, logs } = options
    if (!logs) return
    this.#changes = new LogFollower(logs, CHANGES, {
      onEvent: ({ event }) => {
        if (!isRecord(event) || event['by'] === lease.id) return
        const { taskId } = event
        if (typeof taskId === 'string') this.#noticed(taskId)
      },
      onGap: () => {
        for (const taskId of new Set([...this.#running.keys(), ...this.#listeners.keys()])) {
          this.#noticed(taskId)
        }
      },
    })
  }

  /**
   * Begins a call. Returns its outcome, or its task if it takes longer. A call for which no task can be stored stays a
   * call.
   */
  async begin(call: TaskCall): Promise<CallToolResult | Questions | BegunTask> {
    const { execute, isAlways, isRepeated, order, owner, signal } = call
    const { taskId } = order
    if (isRepeated && taskId !== undefined && (await this.#read(keyOf({ owner, taskId })))) {
      return { task: await this.get({ owner, taskId }), isReplayed: true }
    }
    const queued = this.#options.engine && (await this.#queue(call))
    if (queued) return queued
    const stop = new AbortController()
    const leave = (): void => stop.abort(signal.reason)
    if (signal.aborted) leave()
    else signal.addEventListener('abort', leave, { once: true })
    let running: Running | undefined
    const sink: RunSink = {
      signal: stop.signal,
      progress: (piece) => {
        if (!running) return call.progress?.(piece)
        this.#note(running, piece.message)
      },
    }
    try {
      let created = isAlways ? await this.#create(call) : undefined
      if (created && !created.isOwn) return this.#other(created)
      const outcome = execute(sink)
      if (!created) {
        const { clock } = this.#options
        const first = await inTime<CallToolResult | Questions | undefined>(outcome, {
          clock,
          ms: PATIENCE_MS,
          late: () => undefined,
        })
        if (first && (!isQuestions(first) || first.isBeforeTask === true)) return first
        created = await this.#create(call, first)
        if (!created) return await outcome
      }
      if (!created.isOwn) {
        stop.abort() // the execution is the same, and another request waits for it
        return this.#other(created)
      }
      const { found, release } = created
      if (found.task.status === 'working') running = this.#attend(found, { outcome, stop, release })
      else release()
      return { task: found.task, isReplayed: false }
    } finally {
      signal.removeEventListener('abort', leave)
    }
  }

  /** Returns a task. @throws ProtocolError -32602; GatewayError `UNAVAILABLE` */
  async get(reference: TaskReference): Promise<Task> {
    const found = await this.#find(reference)
    const { task } = found
    if (await this.#isExecuted(task)) return task
    if (this.#options.engine) {
      await this.#submit(found) // has no effect for a task that waits in the queue
      return task
    }
    return this.#apply(found, { type: 'failed', attempt: task.attempt, error: DIED })
  }

  /**
   * Stores answers. With the last one, this process continues the call.
   *
   * @param execute returns what continues the call of a task
   * @throws ProtocolError -32602; GatewayError `UNAVAILABLE`
   */
  async update(
    reference: TaskReference,
    responses: Readonly<Record<string, unknown>>,
    execute: (task: Task) => Continuation,
  ): Promise<void> {
    const { clock, engine, lease, ttlMs } = this.#options
    const event: TaskEvent = { type: 'answered', responses, process: engine ? '' : lease.id }
    for (;;) {
      const found = await this.#find(reference)
      const next = nextTask(found.task, event, clock.now())
      if (next === found.task) return
      if (next.status !== 'working') {
        if (await this.#put({ ...found, task: next })) return
        continue
      }
      const continuation = execute(next)
      const expiresAt = Math.max(next.expiresAt, clock.now() + continuation.maxRunMs + ttlMs)
      if (engine) {
        const queued = await this.#put({ ...found, task: { ...next, expiresAt } })
        if (!queued) continue
        return this.#submit(queued)
      }
      const release = await lease.hold()
      let taken: Found | undefined
      try {
        taken = await this.#put({ ...found, task: { ...next, expiresAt } })
      } finally {
        if (!taken) release()
      }
      if (!taken) continue
      const stop = new AbortController()
      let running: Running | undefined
      const outcome = this.#executeWithRoom(continuation, {
        signal: stop.signal,
        progress: (piece) => running && this.#note(running, piece.message),
      })
      running = this.#attend(taken, { outcome, stop, release })
      return
    }
  }

  /** Ends a task as cancelled, unless it has ended. @throws ProtocolError -32602; GatewayError `UNAVAILABLE` */
  async cancel(reference: TaskReference): Promise<void> {
    const found = await this.#find(reference)
    await this.#apply(found, { type: 'cancelled' })
    this.#running.get(reference.taskId)?.stop.abort()
    // A process that misses this learns of the end when it stores its own.
    await this.#options.engine?.cancel(`${found.key}/${found.task.round}`).catch(() => {})
  }

  /** Executes queued tasks in this process, until `close()`. @throws GatewayError `UNAVAILABLE`; `CONFIG` without an engine */
  async work(): Promise<void> {
    const { engine } = this.#options
    if (!engine) throw new GatewayError('CONFIG', 'To work, a gateway needs the option "engine"')
    if (this.#isClosed) throw new GatewayError('CLOSED', 'The gateway was closed')
    this.#working ??= engine.work((runId, attempt) => this.#execute(runId, attempt))
    try {
      await this.#working
    } catch (error) {
      this.#working = undefined
      throw error
    }
  }

  /** Returns those of these tasks that belong to the caller, to listen to. @throws GatewayError `UNAVAILABLE` */
  async listen(owner: string, taskIds: readonly string[]): Promise<TaskFeed> {
    await this.#changes?.start()
    const found = await Promise.all(taskIds.map((taskId) => this.#read(keyOf({ owner, taskId }))))
    const own = [...new Set(taskIds.filter((_, index) => found[index] !== undefined))]
    let end: (() => void) | undefined
    return {
      taskIds: own,
      begin: (listener) => {
        end = this.#listen(owner, own, listener)
      },
      end: () => end?.(),
    }
  }

  /** Resolves when the ends of all executions of this process are stored. The runs are stopped by `Runs`. */
  async close(): Promise<void> {
    this.#isClosed = true
    const stopWorking = await this.#working?.catch(() => undefined)
    await stopWorking?.()
    await Promise.all([...this.#running.values()].map(({ done }) => done))
    await this.#changes?.stop()
  }

  /** Returns the fields that each message about a task has. */
  fields(task: Task): Readonly<Record<string, unknown>> {
    return toTaskFields(task, this.#options.pollIntervalMs)
  }

  /** Returns a task with its result, error or open questions. */
  detailed(task: Task): Readonly<Record<string, unknown>> {
    return toDetailedTask(task, this.#options.pollIntervalMs)
  }

  #listen(owner: string, taskIds: readonly string[], listener: TaskListener): () => void {
    let queue = Promise.resolve()
    let isEnded = false
    const notify = async (before: Promise<void>, taskId: string): Promise<void> => {
      await before
      if (isEnded) return
      const task = await this.get({ owner, taskId }).catch(() => undefined)
      if (task && !isEnded) listener(this.detailed(task))
    }
    const ends = taskIds.map((taskId) => {
      const changed = (): void => {
        queue = notify(queue, taskId)
      }
      const listeners = this.#listeners.get(taskId) ?? new Set()
      this.#listeners.set(taskId, listeners.add(changed))
      changed()
      return () => {
        listeners.delete(changed)
        if (listeners.size === 0) this.#listeners.delete(taskId)
      }
    })
    return () => {
      isEnded = true
      for (const end of ends) end()
    }
  }

  /** Executes a continuation, and does so again while there is no room for it: the agent has not got the answers then. */
  async #executeWithRoom(
    { execute, maxRunMs }: Continuation,
    sink: RunSink,
  ): Promise<CallToolResult | Questions> {
    const { clock } = this.#options
    const until = clock.now() + maxRunMs
    for (;;) {
      const outcome = await execute(sink)
      const isBusy = !isQuestions(outcome) && outcome['_meta']?.['reason'] === 'busy'
      if (!isBusy || sink.signal.aborted || this.#isClosed || clock.now() > until) return outcome
      await this.#wait(RETRY_MS)
    }
  }

  #wait(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.#options.clock.after(ms, resolve)
    })
  }

  /** Returns the task that another request for the same call has created. */
  #other({ found: { task }, release }: CreatedTask): BegunTask {
    release()
    return { task, isReplayed: true }
  }

  /**
   * Stores a call as a task that any process may execute, and waits for an early end.
   *
   * @returns `undefined` for a call that cannot be queued
   * @throws ProtocolError of the call; -32602 for an idempotency key with other arguments
   */
  async #queue(call: TaskCall): Promise<CallToolResult | BegunTask | undefined> {
    const { isAlways, owner, signal } = call
    // Before the claim: a call that stays a call claims its key itself.
    if (!(await this.#hasRoom(owner))) return undefined
    const claim = await call.claim()
    const { taskId } = claim ?? call.order
    if (taskId === undefined) return undefined
    if (claim && !claim.isNew) {
      const found = await this.#read(keyOf({ owner, taskId }))
      if (found) return { task: await this.get({ owner, taskId }), isReplayed: true }
      // The process of the first call died before it could store the task, or the task has expired.
      if (claim.ageMs > CLAIM_MS) return undefined
    }
    const created = await this.#createTask({ ...call, claimedId: async () => taskId }, '')
    if (!created) return undefined
    created.release()
    const { found, isOwn } = created
    await this.#submit(found)
    if (isAlways || !isOwn) return { task: found.task, isReplayed: !isOwn }
    const task = await this.#settled(found, signal)
    if (signal.aborted && !claim) {
      await this.cancel({ owner, taskId }) // nobody got its id
      signal.throwIfAborted()
    }
    if (task.status !== 'completed' && task.status !== 'failed') return { task, isReplayed: false }
    if (!claim) await this.#options.records.delete(found.key)
    if (task.result) return task.result
    const { code, message, data } = task.error ?? DIED
    throw new ProtocolError(code, message, data)
  }

  /** Queues a task. One that cannot be queued now, or was lost, is queued again by the next `get()`. */
  async #submit({ key, task }: Found): Promise<void> {
    const { engine, onError } = this.#options
    try {
      await engine?.submit(`${key}/${task.round}`)
    } catch (cause) {
      onError(new Error('A task cannot be queued now', { cause }))
    }
  }

  /** Waits until a task does not work any more, for two seconds or until the signal aborts. */
  async #settled({ key, task }: Found, signal: AbortSignal): Promise<Task> {
    const { clock } = this.#options
    const { taskId } = task
    let latest = task
    let wake: (() => void) | undefined
    const changed = (): void => wake?.()
    const listeners = this.#listeners.get(taskId) ?? new Set()
    this.#listeners.set(taskId, listeners.add(changed))
    const deadline = clock.now() + PATIENCE_MS
    try {
      for (;;) {
        const waiting = new Promise<void>((resolve) => {
          wake = resolve
        })
        latest = (await this.#read(key))?.task ?? latest
        const leftMs = deadline - clock.now()
        if (latest.status !== 'working' || leftMs <= 0 || signal.aborted) return latest
        const undo = clock.after(leftMs, changed)
        signal.addEventListener('abort', changed, { once: true })
        await waiting
        undo()
        signal.removeEventListener('abort', changed)
      }
    } finally {
      listeners.delete(changed)
      if (listeners.size === 0) this.#listeners.delete(taskId)
    }
  }

  /** Executes a queued task up to its end or its next questions. Continues the call if another process has died in it. */
  async #execute(runId: string, { signal }: RunAttempt): Promise<'ended' | 'released'> {
    const [key = '', round] = runId.split('/')
    let release: (() => void) | undefined
    try {
      await this.#changes?.start()
      // Before the claim: other processes must see that this one is alive when they see that it has the task.
      release = await this.#options.lease.hold()
      const found = await this.#claim(key, Number(round))
      if (found) return await this.#executeClaimed(found, signal)
      return 'ended'
    } catch {
      // The store is away. Without a pause, processes would take the task again and again.
      await this.#wait(RETRY_MS)
      return 'released'
    } finally {
      release?.()
    }
  }

  /** Executes a task that this process has claimed. @throws GatewayError `UNAVAILABLE` */
  async #executeClaimed(found: Found, signal: AbortSignal): Promise<'ended' | 'released'> {
    const { prepare } = this.#options
    const { task } = found
    const isContinued = task.claims > 1
    const stop = new AbortController()
    let prepared: PreparedTask
    try {
      prepared = prepare({ ...task, order: { ...task.order, attempt: task.claims } })
    } catch (error) {
      await this.#store({ type: 'failed', attempt: task.attempt, error: toTaskError(error) }, found)
      return 'ended'
    }
    if (task.claims > MAX_CLAIMS || (isContinued && !prepared.canContinue)) {
      await this.#store({ type: 'failed', attempt: task.attempt, error: DIED }, found)
      prepared.forget()
      return 'ended'
    }
    let isStopped = false
    const leave = (): void => {
      isStopped = true
      stop.abort(signal.reason)
    }
    if (signal.aborted) leave()
    else signal.addEventListener('abort', leave, { once: true })
    let running: Running | undefined
    const outcome = this.#executeWithRoom(prepared, {
      signal: stop.signal,
      progress: (piece) => running && this.#note(running, piece.message),
    })
    const isHandedOver = (): boolean => isStopped && prepared.canContinue
    running = this.#attend(found, { outcome, stop, isHandedOver })
    const isEnded = await running.done
    signal.removeEventListener('abort', leave)
    if (isEnded) prepared.forget()
    if (isEnded || !isHandedOver()) return 'ended'
    await this.#apply(found, { type: 'released', attempt: task.attempt })
    return 'released'
  }

  /** Takes a queued task, or one of a process that has died. @returns `undefined` if it does not wait for a process */
  async #claim(key: string, round: number): Promise<Found | undefined> {
    const { clock, lease } = this.#options
    for (;;) {
      const found = await this.#read(key)
      if (found?.task.round !== round) return undefined
      const next = nextTask(found.task, { type: 'claimed', process: lease.id }, clock.now())
      if (next === found.task || found.task.status !== 'working') return undefined
      const claimed = await this.#put({ ...found, task: next })
      if (claimed) return claimed
    }
  }

  /** Returns whether the caller may have another task. Not if the store is away. */
  async #hasRoom(owner: string): Promise<boolean> {
    const { maxPerPrincipal, onError, records } = this.#options
    if (this.#isClosed) return false
    try {
      return (await records.count(`${PREFIX}${owner}:`)) < maxPerPrincipal
    } catch (cause) {
      onError(new Error(STAYS_CALL, { cause }))
      return false
    }
  }

  /** @returns `undefined` if no task can be stored: the caller has too many, or the store is away */
  async #create(call: TaskCall, questions?: Questions): Promise<CreatedTask | undefined> {
    if (!(await this.#hasRoom(call.owner))) return undefined
    return this.#createTask(call, this.#options.lease.id, questions)
  }

  /** @returns `undefined` if the store is away */
  async #createTask(
    { claimedId, maxRunMs, order, owner, tool }: TaskCall,
    process: string,
    questions?: Questions,
  ): Promise<CreatedTask | undefined> {
    const { clock, lease, onError, ttlMs } = this.#options
    let release: (() => void) | undefined
    try {
      await this.#changes?.start()
      release = await lease.hold()
      const now = clock.now()
      const taskId = (await claimedId()) ?? order.taskId ?? newTaskId(now)
      const key = keyOf({ owner, taskId })
      const expiresAt = now + maxRunMs + ttlMs
      const task = newTask({ taskId, tool, order, process, expiresAt }, now)
      const first = questions ? nextTask(task, this.#toEvent(task, questions), now) : task
      const found = await this.#put({ key, task: first, version: null })
      if (found) return { found, isOwn: true, release }
      // A repeat of the call was faster.
      const other = await this.#read(key)
      if (other) return { found: other, isOwn: false, release }
    } catch (cause) {
      onError(new Error(STAYS_CALL, { cause }))
    }
    release?.()
    return undefined
  }

  /** Stores the end of an execution, when it comes. */
  #attend(
    found: Found,
    {
      outcome,
      stop,
      release = () => {},
      isHandedOver = () => false,
    }: {
      readonly outcome: Promise<CallToolResult | Questions>
      readonly stop: AbortController
      /** Called when the end is stored. */
      readonly release?: () => void
      readonly isHandedOver?: () => boolean
    },
  ): Running {
    const { task } = found
    const attend = async (): Promise<boolean> => {
      const event = await outcome.then(
        (each) => this.#toEvent(task, each),
        (error: unknown): TaskEvent => {
          return { type: 'failed', attempt: task.attempt, error: toTaskError(error) }
        },
      )
      running.undo?.()
      const isEnd = !(isHandedOver() && isCancellation(event))
      const isStored = isEnd && (await this.#store(event, found))
      this.#running.delete(task.taskId)
      release()
      return isStored && event.type !== 'asked'
    }
    const running: Running = { found, stop, done: attend(), message: undefined, undo: undefined }
    this.#running.set(task.taskId, running)
    return running
  }

  /** Stores progress, at most once a second. */
  #note(running: Running, message: string): void {
    const { clock } = this.#options
    running.message = message.slice(0, MAX_MESSAGE_CHARS)
    running.undo ??= clock.after(PROGRESS_MS, () => {
      running.undo = undefined
      const { found } = running
      const { attempt } = found.task
      const event: TaskEvent = { type: 'progress', attempt, message: running.message ?? '' }
      this.#apply(found, event).catch(() => {}) // the next message tries again
    })
  }

  /** Stores the end of an execution. While the store is away, tries again until the task expires. */
  async #store(event: TaskEvent, found: Found): Promise<boolean> {
    const { clock, onError } = this.#options
    for (let isFirst = true; clock.now() < found.task.expiresAt; isFirst = false) {
      try {
        const { attempt } = await this.#apply(found, event)
        return attempt === found.task.attempt
      } catch (cause) {
        if (isFirst) onError(new Error('The end of a task cannot be stored now', { cause }))
        if (this.#isClosed) return false
      }
      await this.#wait(RETRY_MS)
    }
    return false
  }

  #toEvent({ attempt }: Task, outcome: CallToolResult | Questions): TaskEvent {
    const { clock, needsInputTtlMs, ttlMs } = this.#options
    const expiresAt = clock.now() + ttlMs
    if (isQuestions(outcome)) {
      const { forms, state } = outcome
      const questions = toInputRequests(forms)
      return { type: 'asked', attempt, questions, state, expiresAt: expiresAt + needsInputTtlMs }
    }
    const { _meta: meta } = outcome
    if (this.#isClosed && meta?.['reason'] === 'cancelled') {
      return { type: 'failed', attempt, error: STOPPED }
    }
    return { type: 'ended', attempt, result: outcome, expiresAt }
  }

  /** Applies an event to the newest version of a task, and returns the task after it. */
  async #apply(found: Found, event: TaskEvent): Promise<Task> {
    let latest: Found | undefined = found
    while (latest) {
      const next = nextTask(latest.task, event, this.#options.clock.now())
      if (next === latest.task) return next
      if (await this.#put({ ...latest, task: next })) return next
      latest = await this.#read(found.key)
    }
    return found.task // it has expired
  }

  /** @returns `undefined` if another process changed the record in the meantime */
  async #put({
    key,
    task,
    version: ifVersion,
  }: Pick<Found, 'key' | 'task'> & { readonly version: string | null }): Promise<
    Found | undefined
  > {
    const { clock, records } = this.#options
    const ttlMs = Math.max(1, task.expiresAt - clock.now())
    const version = await records.put(key, task, { ttlMs, ifVersion })
    if (version === undefined) return undefined
    this.#changed(task.taskId)
    return { key, task, version }
  }

  async #read(key: string): Promise<Found | undefined> {
    const found = await this.#options.records.get(key)
    const task = parseTask(found?.value)
    return found && task && task.expiresAt > this.#options.clock.now()
      ? { key, task, version: found.version }
      : undefined
  }

  async #find(reference: TaskReference): Promise<Found> {
    const found = await this.#read(keyOf(reference))
    if (found) return found
    // The same for a task of somebody else.
    const text = `Unknown task "${reference.taskId.slice(0, 13)}…": it does not exist, has expired, or belongs to another caller. Whether its call was executed is not known.`
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, text, { reason: 'unknown_task' })
  }

  async #isExecuted({ process, status, taskId, updatedAt }: Task): Promise<boolean> {
    const { clock, lease } = this.#options
    if (status !== 'working') return true
    if (process === '') return clock.now() - updatedAt < BEGIN_MS
    if (process !== lease.id) return lease.isAlive(process)
    return this.#running.has(taskId) || clock.now() - updatedAt < BEGIN_MS
  }

  /** Tells this process, and then the others, that a task has changed. */
  #changed(taskId: string): void {
    const { lease, logs, onError } = this.#options
    for (const listener of this.#listeners.get(taskId) ?? []) listener()
    logs
      ?.append(CHANGES, { taskId, by: lease.id }, { limits: CHANGES_LIMITS, isLast: false })
      .catch((cause: unknown) => {
        onError(new Error('Other processes could not be told of a task', { cause }))
      })
  }

  /** Another process changed a task. */
  #noticed(taskId: string): void {
    for (const listener of this.#listeners.get(taskId) ?? []) listener()
    const running = this.#running.get(taskId)
    if (!running) return
    this.#stopIfOver(running).catch(() => {}) // the end of the execution changes nothing then
  }

  async #stopIfOver({ found: { key, task }, stop }: Running): Promise<void> {
    const latest = await this.#read(key)
    if (!latest || isTerminal(latest.task) || latest.task.attempt !== task.attempt) stop.abort()
  }
}

/** Returns an id that cannot be guessed. Later ids sort behind earlier ones, where stores add keys faster. */
export function newTaskId(now: number): string {
  return `task_${Math.floor(now).toString(36)}${randomHex(16)}`
}

/** Owners without a namespace. Requests with one credential often share the object of their principal. */
const owners = new WeakMap<Principal, string>()

/** Returns a hash that only the same caller has. */
export function taskOwnerOf(principal: Principal, namespace: string | undefined): string {
  if (namespace !== undefined) return hashOf([principal.id, namespace])
  const known = owners.get(principal)
  if (known !== undefined) return known
  const owner = hashOf([principal.id, null])
  owners.set(principal, owner)
  return owner
}

const DIED: TaskError = {
  code: ProtocolErrorCode.InternalError,
  message:
    'The process that executed this task died. The call may have been executed in part, so it is not repeated. Check what it did before you call again.',
  data: { reason: 'outcome_unknown' },
}

const STOPPED: TaskError = {
  code: ProtocolErrorCode.InternalError,
  message:
    'The gateway was stopped before this task ended. Check what it did before you call again.',
  data: { reason: 'cancelled' },
}

function toTaskError(error: unknown): TaskError {
  if (!(error instanceof ProtocolError)) {
    return { code: ProtocolErrorCode.InternalError, message: 'Internal error' }
  }
  const { code, data, message } = error
  return { code, message, data }
}

/** Whether an execution ended because its run was stopped. */
function isCancellation(event: TaskEvent): boolean {
  if (event.type !== 'ended') return event.type === 'failed'
  const { _meta: meta } = event.result
  return meta?.['reason'] === 'cancelled'
}

function isQuestions(outcome: CallToolResult | Questions): outcome is Questions {
  return !('content' in outcome)
}

function keyOf({ owner, taskId }: TaskReference): string {
  return `${PREFIX}${owner}:${taskId}`
}
