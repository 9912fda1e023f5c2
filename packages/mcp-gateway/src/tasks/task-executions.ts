import { ProtocolErrorCode, type CallToolResult } from '@modelcontextprotocol/server'

import { GatewayError } from '../errors.ts'
import { MAX_TIMER_MS, sleep, type Clock } from '../internal/clock.ts'
import { wholeCharacters } from '../internal/text.ts'
import { pause } from '../internal/timers.ts'
import type { RunEngine } from '../runs/engine.ts'
import { toInputRequests } from '../runs/forms.ts'
import type { RunOrder, RunProgress, RunSink, ToolOutcome } from '../runs/order.ts'
import type { ProcessLease } from '../store/lease.ts'
import type { StoredTask, TaskRecords } from './task-records.ts'
import {
  isTerminal,
  nextTask,
  toTaskError,
  type Task,
  type TaskError,
  type TaskEvent,
} from './task.ts'

export interface TaskExecutionsOptions {
  /** Shows other processes that this one still executes its tasks. */
  readonly lease: ProcessLease
  /** Executes tasks in any process. `undefined`: a task is executed in the process that began it. */
  readonly engine: RunEngine | undefined
  /** Another process, or this one after a restart, can read the tasks of this process. */
  readonly outlive: boolean
  /** Returns what executes a stored call, with other parts of its order. @throws if its agent is not there */
  readonly prepare: (task: Task, over?: Partial<RunOrder>) => PreparedTask
  /** Time for which a task is kept after its end. */
  readonly ttlMs: number
  /** Time that a question waits for its answer. */
  readonly needsInputTtlMs: number
  readonly clock: Clock
  readonly onError: (error: Error) => void
}

/** Executes the call of a stored task, or continues it with the answers to its last questions. */
export interface PreparedTask {
  readonly execute: Execute
  /** Time after which the execution has ended. */
  readonly maxRunMs: number
  /** Another process can continue the call after the one that executed it died. */
  readonly canContinue: boolean
  /** Lets the agent delete what it kept for the call. @param remote as `Task.remote`: the run is stopped */
  readonly forget: (remote?: unknown) => void
}

/** Questions of an agent that has not finished. */
export type Questions = Extract<ToolOutcome, { type: 'input' }>

/** Result of a call, or its next questions. */
export type CallOutcome = CallToolResult | Questions

/** Executes a call, up to its result or its next questions. */
export type Execute = (sink: RunSink) => Promise<CallOutcome>

interface Beginning extends Pick<PreparedTask, 'canContinue'> {
  /** Gets progress until the call becomes a task. */
  readonly progress: RunProgress | undefined
  /** As `Task.remote`: the run that the execution joins. */
  readonly remote: unknown
  /** As `RunAttempt.signal`. */
  readonly leaving: AbortSignal | undefined
}

/** An execution in this process, of a task or of a call that may become one. */
export class TaskExecution {
  readonly beginning: Beginning
  readonly outcome: Promise<CallOutcome>
  readonly #stop = new AbortController()
  /** The task when the execution began, or when its call became one. `undefined`: it is a call. */
  found: StoredTask | undefined
  /** As `Task.remote`. */
  remote: unknown
  /** Resolves when its end is stored, with `true` for the end of the call. */
  done: Promise<boolean> = Promise.resolve(false)
  message = ''
  undo: (() => void) | undefined

  constructor(beginning: Beginning, execute: (execution: TaskExecution) => ReturnType<Execute>) {
    this.beginning = beginning
    this.remote = beginning.remote
    this.outcome = execute(this)
  }

  get signal(): AbortSignal {
    return this.#stop.signal
  }

  stop(reason?: unknown): void {
    this.#stop.abort(reason)
  }
}

/** Time between two attempts: to reach a store that is away, and to find room for a call. */
const RETRY_MS = 1000
/** Time between the first two attempts to reach the engine. It doubles each time. */
const FIRST_WAIT_MS = 250
const MAX_WAIT_MS = 5000
const NOT_YET = 'Queued tasks are not executed here yet, because the engine cannot be reached.'
/** Time between two messages of progress that are stored. */
const PROGRESS_MS = 1000
const MAX_MESSAGE_CHARS = 1000
/** Processes that may die within one call. Then the call is to blame. */
const MAX_CLAIMS = 5
/** A process that has died looks alive for a shorter time. */
const DEAD_MS = 5000
/** In this time after its last change, a task waits for its agent, or for a process that has it. */
const AGENT_MS = 60_000
/** In this time, a process that has stored a task notes that it executes it. */
const BEGIN_MS = 5000

/** Executes the calls of tasks in this process, and stores how they end. */
export class TaskExecutions {
  readonly #options: TaskExecutionsOptions
  readonly #records: TaskRecords
  readonly #running = new Map<string, TaskExecution>()
  #working: Promise<() => Promise<void>> | undefined
  #stopping: Promise<void> | undefined
  /** Ends the wait for an engine. */
  readonly #leaving = new AbortController()
  #isClosed = false

  constructor(records: TaskRecords, options: TaskExecutionsOptions) {
    this.#records = records
    this.#options = options
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /** Begins to execute a call. It becomes a task with `attend()`. */
  beginCall(execute: Execute, progress: RunProgress | undefined): TaskExecution {
    const beginning = { canContinue: false, leaving: undefined, remote: undefined, progress }
    return this.#begin(execute, beginning)
  }

  #begin(execute: Execute, beginning: Beginning): TaskExecution {
    const { progress, remote: joined } = beginning
    return new TaskExecution(beginning, (execution) =>
      execute({
        signal: execution.signal,
        progress: (piece) => {
          if (!execution.found) return progress?.(piece)
          this.#note(execution, piece.message)
        },
        remote: {
          joined,
          store: (state) => this.#storeRemote(execution, state),
          isOwn: () => this.#isOwn(execution),
          isLeft: () => this.#isLeft(execution),
        },
      }),
    )
  }

  attend(execution: TaskExecution, found: StoredTask): void {
    const { taskId, attempt } = found.task
    const unwatch = this.#records.watch(taskId, (isForeign) => {
      // If the store is away, the end of the execution changes nothing.
      if (isForeign) this.#stopIfOver(execution, found).catch(() => {})
    })
    const attended = async (): Promise<boolean> => {
      const event = await execution.outcome.then(
        (each) => this.toEvent(found.task, each),
        (error: unknown): TaskEvent => ({ type: 'failed', attempt, error: toTaskError(error) }),
      )
      execution.undo?.()
      const isEnd = !(this.#isLeft(execution) && isCancellation(event))
      const isStored = isEnd && (await this.#store(event, found))
      unwatch()
      this.#running.delete(taskId)
      return isStored && event.type !== 'asked'
    }
    execution.found = found
    const { remote } = execution
    if (remote !== found.task.remote) void this.#storeRemote(execution, remote)
    execution.done = attended()
    this.#running.set(taskId, execution)
  }

  /**
   * Stores a task that got all its answers, and lets it be executed: here, or by the engine.
   *
   * @returns `false` if another process changed the record in the meantime
   * @throws GatewayError `UNAVAILABLE`
   */
  async resume({ key, task, version }: StoredTask, prepared: PreparedTask): Promise<boolean> {
    const { clock, engine, lease, ttlMs } = this.#options
    const expiresAt = Math.max(task.expiresAt, clock.now() + prepared.maxRunMs + ttlMs)
    const release = engine ? () => {} : await lease.hold()
    let stored: StoredTask | undefined
    try {
      stored = await this.#records.put(key, { ...task, expiresAt }, version)
    } finally {
      if (!stored || engine) release()
    }
    if (!stored) return false
    if (engine) await this.submit(stored)
    else void this.#run(stored, prepared).done.then(release)
    return true
  }

  /** Returns whether a process executes a task, or will do so soon. @throws GatewayError `UNAVAILABLE` */
  async isExecuted({ process, status, taskId, updatedAt }: Task): Promise<boolean> {
    const { clock, engine, lease } = this.#options
    if (status !== 'working') return true
    // The process that stored the task may have died before it queued it. `takeOver()` makes sure that it is queued.
    if (process === '' && engine) return false
    if (process !== '' && process !== lease.id) return lease.isAlive(process)
    return this.#running.has(taskId) || clock.now() - updatedAt < BEGIN_MS
  }

  /** Continues a task that no process executes, or ends it as failed. @throws GatewayError `UNAVAILABLE` */
  async takeOver(found: StoredTask): Promise<Task> {
    const { key, task } = found
    if (this.#options.engine) {
      await this.submit(found) // has no effect for a task that waits in the queue
      return { ...task, process: '' }
    }
    if (task.remote !== undefined) void this.#execute(`${key}/${task.round}`)
    else return this.#records.apply(found, { type: 'failed', attempt: task.attempt, error: DIED })
    return task
  }

  /** Queues a task. One that cannot be queued now, or was lost, is queued again by `takeOver()`. */
  async submit({ key, task }: StoredTask): Promise<void> {
    const { engine, onError } = this.#options
    try {
      await engine?.submit(`${key}/${task.round}`)
    } catch (cause) {
      onError(new Error('A task cannot be queued now', { cause }))
    }
  }

  /** Stops the execution of a task that was cancelled, wherever it is. */
  async stop({ key, task }: StoredTask): Promise<void> {
    const { engine } = this.#options
    const running = this.#running.get(task.taskId)
    running?.stop()
    // A process that misses this learns of the end when it stores its own.
    await engine?.cancel(`${key}/${task.round}`).catch(() => {})
    if (running) return
    if (task.remote === undefined) {
      // The agent of an engine's task keeps a thread for the answer.
      if (engine && task.status === 'input_required' && this.#hasAgent(task)) {
        this.#options.prepare(task).forget()
      }
      return
    }
    void this.#stopRemote(task).catch(() => {}) // the run goes on, and its result is dropped
  }

  /** Stops a run at the server of its agent, which this process may have to find first. */
  async #stopRemote(task: Task): Promise<void> {
    const { clock, prepare } = this.#options
    // A process that has died looks alive for some time. If it lives, it stops the run itself.
    if (task.status === 'working' && (await this.isExecuted(task))) await this.#wait(DEAD_MS)
    if (task.status === 'working' && (await this.isExecuted(task))) return
    const until = clock.now() + AGENT_MS
    while (!this.#hasAgent(task) && clock.now() < until && !this.#isClosed)
      await this.#wait(RETRY_MS)
    if (this.#hasAgent(task)) prepare(task).forget(task.remote)
  }

  /**
   * Executes queued tasks in this process, until `close()`. Waits for an engine that cannot be reached.
   *
   * @throws GatewayError `CONFIG` without an engine, or if the engine refuses access; `CLOSED`
   */
  async work(): Promise<void> {
    const { engine } = this.#options
    if (!engine) throw new GatewayError('CONFIG', 'To work, a gateway needs the option "engine"')
    if (this.#stopping) throw closed()
    this.#working ??= this.#whenReachable(() =>
      engine.work((runId, { signal }) => this.#execute(runId, signal)),
    )
    try {
      await this.#working
    } catch (error) {
      this.#working = undefined
      throw error
    }
  }

  async #whenReachable<Value>(attempt: () => Promise<Value>): Promise<Value> {
    const { clock, onError } = this.#options
    // The timers of the clock do not keep the process alive, and a worker may have nothing else yet.
    const alive = setInterval(() => {}, MAX_TIMER_MS)
    try {
      for (let ms = FIRST_WAIT_MS; ; ms = Math.min(2 * ms, MAX_WAIT_MS)) {
        try {
          return await attempt()
        } catch (cause) {
          const isAway = GatewayError.is(cause) && cause.code === 'UNAVAILABLE'
          if (!isAway) throw cause
          onError(new Error(`${NOT_YET} The next attempt is in ${ms} ms`, { cause }))
        }
        await pause(ms, clock, this.#leaving.signal)
      }
    } finally {
      clearInterval(alive)
    }
  }

  /** Hands queued tasks that this process executes to other processes, and takes no more of them. */
  stopWorking(): Promise<void> {
    this.#stopping ??= (async () => {
      this.#leaving.abort(closed())
      const stop = await this.#working?.catch(() => undefined)
      await stop?.()
    })()
    return this.#stopping
  }

  /** Resolves when the ends of all executions of this process are stored. The runs are stopped by `Runs`. */
  async close(): Promise<void> {
    this.#isClosed = true
    await this.stopWorking()
    await Promise.all([...this.#running.values()].map(({ done }) => done))
  }

  /** Returns the event of the end of an execution. */
  toEvent({ attempt }: Task, outcome: CallOutcome): TaskEvent {
    const { clock, needsInputTtlMs, ttlMs } = this.#options
    const expiresAt = clock.now() + ttlMs
    if (isQuestions(outcome)) {
      const { forms, state } = outcome
      const questions = toInputRequests(forms)
      return { type: 'asked', attempt, questions, state, expiresAt: expiresAt + needsInputTtlMs }
    }
    const reason = reasonOf(outcome)
    if (this.#isClosed && reason === 'cancelled') return { type: 'failed', attempt, error: STOPPED }
    if (reason === 'outcome_unknown') return { type: 'failed', attempt, error: toUnknown(outcome) }
    return { type: 'ended', attempt, result: outcome, expiresAt }
  }

  /**
   * Executes a queued task up to its end or its next questions. Continues the call if another process has died in it.
   *
   * @param leaving as `RunAttempt.signal`
   */
  async #execute(runId: string, leaving?: AbortSignal): Promise<'ended' | 'released'> {
    const [key = '', round] = runId.split('/')
    let release: (() => void) | undefined
    try {
      await this.#records.start()
      // Before the claim: other processes must see that this one is alive when they see that it has the task.
      release = await this.#options.lease.hold()
      const found = await this.#claim(key, Number(round))
      if (found === 'absent') {
        await this.#wait(RETRY_MS) // a process that has the agent may take the task in this time
        return 'released'
      }
      return found ? await this.#executeClaimed(found, leaving) : 'ended'
    } catch {
      // The store is away. Without a pause, processes would take the task again and again.
      await this.#wait(RETRY_MS)
      return 'released'
    } finally {
      release?.()
    }
  }

  /**
   * Takes a queued task, or one of a process that has died.
   *
   * @returns `undefined` if it does not wait for a process; `absent` if its agent is not in this process, but may be in
   *   another one, or come
   */
  async #claim(key: string, round: number): Promise<StoredTask | 'absent' | undefined> {
    const { clock, engine, lease, onError } = this.#options
    for (;;) {
      const found = await this.#records.read(key)
      if (found?.task.round !== round || found.task.status !== 'working') return undefined
      // The queue of an engine gives a task to one process.
      if (!engine && (await this.isExecuted(found.task))) return undefined
      const isWaitedFor = clock.now() - found.task.updatedAt < AGENT_MS
      if (isWaitedFor && !this.#hasAgent(found.task)) return 'absent'
      const next = nextTask(found.task, { type: 'claimed', process: lease.id }, clock.now())
      const claimed = await this.#records.put(key, next, found.version)
      if (!claimed) continue
      const { process, runId, tool } = found.task
      if (process !== '') {
        const text = `The run ${runId} of ${tool} is taken over: its process died or froze`
        onError(new Error(text))
      }
      return claimed
    }
  }

  #hasAgent(task: Task): boolean {
    try {
      this.#options.prepare(task)
      return true
    } catch {
      return false
    }
  }

  /** Executes a task that this process has claimed. @throws GatewayError `UNAVAILABLE` */
  async #executeClaimed(found: StoredTask, leaving?: AbortSignal): Promise<'ended' | 'released'> {
    const { task } = found
    const { attempt, claims, remote } = task
    let prepared: PreparedTask
    try {
      prepared = this.#options.prepare(task, { attempt: claims })
    } catch (error) {
      await this.#store({ type: 'failed', attempt, error: toTaskError(error) }, found)
      return 'ended'
    }
    const canContinue = prepared.canContinue || remote !== undefined
    if (claims > MAX_CLAIMS || (claims > 1 && !canContinue)) {
      await this.#store({ type: 'failed', attempt, error: DIED }, found)
      prepared.forget(remote)
      return 'ended'
    }
    const execution = this.#run(found, prepared, leaving)
    const leave = (): void => {
      // A call that no other process can continue gets the time that calls have when the gateway stops.
      const isFinishedHere = leaving?.reason === 'stopping' && !this.#isLeft(execution)
      if (!isFinishedHere) execution.stop(leaving?.reason)
    }
    if (leaving?.aborted === true) leave()
    else leaving?.addEventListener('abort', leave, { once: true })
    const isEnded = await execution.done
    leaving?.removeEventListener('abort', leave)
    if (isEnded) prepared.forget()
    if (isEnded || !this.#isLeft(execution)) return 'ended'
    await this.#records.apply(found, { type: 'released', attempt })
    return 'released'
  }

  /** Executes a task, and does so again while its agent is busy or absent. */
  #run(
    found: StoredTask,
    { canContinue, execute, maxRunMs }: PreparedTask,
    leaving?: AbortSignal,
  ): TaskExecution {
    const { clock } = this.#options
    const beganAt = clock.now()
    const patience: ReadonlyMap<unknown, number> = new Map([
      ['busy', maxRunMs],
      ['agent_gone', AGENT_MS],
    ])
    const executeWhenPossible: Execute = async (sink) => {
      for (;;) {
        const outcome = await execute(sink)
        const ms = isQuestions(outcome) ? 0 : (patience.get(reasonOf(outcome)) ?? 0)
        const isLate = clock.now() - beganAt >= ms
        if (isLate || sink.signal.aborted || this.#isClosed) return outcome
        await this.#wait(RETRY_MS)
      }
    }
    const { remote } = found.task
    const execution = this.#begin(executeWhenPossible, {
      canContinue,
      leaving,
      remote,
      progress: undefined,
    })
    this.attend(execution, found)
    return execution
  }

  /** Returns whether no other process has the task of an execution. If the store is away, one may have it. */
  async #isOwn({ found }: TaskExecution): Promise<boolean> {
    if (!found) return true
    const latest = await this.#records.read(found.key).catch(() => undefined)
    return latest?.task.attempt === found.task.attempt
  }

  /** Returns whether another process goes on with a call, because this one stops or has lost it. */
  #isLeft({ beginning, found, remote }: TaskExecution): boolean {
    const { canContinue, leaving } = beginning
    if (!found) return false
    if (leaving) {
      const isLeaving = leaving.aborted && leaving.reason !== 'cancelled'
      return isLeaving && (canContinue || remote !== undefined)
    }
    return this.#isClosed && this.#options.outlive && remote !== undefined
  }

  /** Stores with which state another process joins the run of an execution. */
  async #storeRemote(execution: TaskExecution, remote: unknown): Promise<void> {
    execution.remote = remote
    const { found } = execution
    if (!found) return // it is stored with the task, if the call becomes one
    const event: TaskEvent = { type: 'remote', attempt: found.task.attempt, remote }
    // If the store is away, the run does not wait for it.
    await this.#records.apply(found, event).catch(() => void this.#store(event, found))
  }

  /** Stores progress, at most once a second. */
  #note(execution: TaskExecution, message: string): void {
    execution.message = wholeCharacters(message, MAX_MESSAGE_CHARS)
    execution.undo ??= this.#options.clock.after(PROGRESS_MS, () => {
      execution.undo = undefined
      const { found, message: newest } = execution
      if (!found) return
      const { attempt } = found.task
      // After a failure, the next message tries again.
      this.#records.apply(found, { type: 'progress', attempt, message: newest }).catch(() => {})
    })
  }

  /** Stores an event of an execution. While the store is away, tries again until the task expires. */
  async #store(event: TaskEvent, found: StoredTask): Promise<boolean> {
    const { clock, onError } = this.#options
    for (let isFirst = true; clock.now() < found.task.expiresAt; isFirst = false) {
      try {
        const { attempt } = await this.#records.apply(found, event)
        return attempt === found.task.attempt
      } catch (cause) {
        if (isFirst) onError(new Error('The state of a task cannot be stored now', { cause }))
        if (this.#isClosed) return false
      }
      await this.#wait(RETRY_MS)
    }
    return false
  }

  /** Stops an execution whose task has ended, or is executed by another process. */
  async #stopIfOver(execution: TaskExecution, { key, task }: StoredTask): Promise<void> {
    const latest = await this.#records.read(key)
    if (!latest || isTerminal(latest.task) || latest.task.attempt !== task.attempt) execution.stop()
  }

  #wait(ms: number): Promise<void> {
    return sleep(this.#options.clock, ms)
  }
}

function closed(): GatewayError {
  return new GatewayError('CLOSED', 'The gateway was closed')
}

export const DIED: TaskError = {
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

function toUnknown({ content, _meta: meta }: CallToolResult): TaskError {
  const [first] = content
  const message = first?.type === 'text' ? first.text : DIED.message
  return { code: ProtocolErrorCode.InternalError, message, data: meta }
}

/** Returns whether an execution ended because its run was stopped. */
function isCancellation(event: TaskEvent): boolean {
  return event.type === 'ended' ? reasonOf(event.result) === 'cancelled' : event.type === 'failed'
}

function reasonOf({ _meta: meta }: CallToolResult): unknown {
  return meta?.['reason']
}

export function isQuestions(outcome: CallOutcome): outcome is Questions {
  return !('content' in outcome)
}
