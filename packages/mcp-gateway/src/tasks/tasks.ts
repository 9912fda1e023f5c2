import { ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/server'

import { RunFailure, type RunTool } from '../agents/agent.ts'
import type { Clock } from '../internal/clock.ts'
import { accountHashOf, ownerOf, type Caller } from '../internal/principal.ts'
import { hashOf } from '../internal/text.ts'
import { inTime } from '../internal/timers.ts'
import { nextCall, type CallRecord } from '../runs/call-record.ts'
import { outcomeOf, toReplayed } from '../runs/call-outcome.ts'
import type { StoredCall } from '../runs/call-store.ts'
import type { Calls, OpenedCall } from '../runs/calls.ts'
import { busy, type RunOrder, type RunSink, type ToolOutcome } from '../runs/order.ts'
import { failedOutcome } from '../runs/result.ts'
import { whenBack } from '../store/gateway-store.ts'
import {
  areLast,
  isTask,
  newAnswers,
  runIdOfTask,
  taskOf,
  toDetailedTask,
  unknownKeys,
  type RefusedAnswers,
  type TaskCallRecord,
} from './task-view.ts'

interface TasksOptions {
  readonly calls: Calls
  readonly maxPerPrincipal: number
  readonly clock: Clock
  readonly onError: (error: Error) => void
}

/** A call that may become a task. */
interface TaskCall extends Pick<RunSink, 'progress'> {
  /** Hash of the caller that may use the task. */
  readonly owner: string
  readonly tool: RunTool
  readonly order: RunOrder
  /** `true`: from the start. `false`: after two seconds, or at the first question. */
  readonly isAlways: boolean
  /** The client cannot wait for the call: it fails where no task can be stored. @default false */
  readonly isOnlyTask?: boolean
  /** Aborts when the client leaves. That cancels a call which has not become a task. */
  readonly signal: AbortSignal
  readonly execute: (sink: RunSink) => Promise<ToolOutcome>
}

/** Names a task, and the caller that asks for it. */
export interface TaskReference {
  /** Hash of the caller that may use the task. */
  readonly owner: string
  readonly taskId: string
}

/** Answers to the questions of a task that were not taken. */
export interface UntakenAnswers {
  /** Keys that no open question has. */
  readonly unknown: readonly string[]
  /** Why answers do not fit, and the round in which the questions are asked again. */
  readonly refused: { readonly reading: RefusedAnswers; readonly round: number } | undefined
}

export const NOTHING_UNTAKEN: UntakenAnswers = { unknown: [], refused: undefined }

export interface BegunTask {
  readonly type: 'task'
  readonly task: TaskCallRecord
  /** It is the task of an earlier call with the same idempotency key. */
  readonly isReplayed: boolean
}

/** A call in flight that may become a task. */
interface PatientCall {
  readonly outcome: Promise<ToolOutcome>
  /** Makes it a task. @returns `undefined` if it has ended */
  readonly keep: () => Promise<StoredCall | undefined>
  /** It was made by an earlier request with the same idempotency key. */
  readonly isReplayed: boolean
}

/** Continues the call of a task: its tool, and the call as data. */
type Prepare = (call: CallRecord) => { readonly tool: RunTool; readonly order: RunOrder }

/** Time after which a call becomes a task. */
const PATIENCE_MS = 2000
/** Time for which a call waits for a store that is away. Redis restarts within it. */
const AWAY_MS = 5000
const NO_TASK =
  'The work was not started: the caller has too many unfinished or stored tasks, or the store cannot be reached. Nothing was executed. Call again later.'
const STAYS_CALL = 'A call cannot become a task, because the store is away'

/** Tasks (SEP-2663): a view of stored calls. Each process can read a task, answer its questions and cancel it. */
export class Tasks {
  readonly #options: TasksOptions
  readonly #calls: Calls
  /** Number of tasks that are being stored, by account. The store does not count them yet. */
  readonly #creating = new Map<string, number>()

  constructor(options: TasksOptions) {
    this.#options = options
    this.#calls = options.calls
  }

  /**
   * Begins a call. Returns its outcome, or its task if it takes longer. A call for which no task can be stored stays a
   * call.
   *
   * @throws ProtocolError of the call
   */
  async begin(call: TaskCall): Promise<ToolOutcome | BegunTask> {
    const { execute, isAlways, isOnlyTask = false, order, progress, signal } = call
    // Any process can execute a call that was queued from the start.
    const isQueued = isAlways || this.#calls.isEngineShared
    const opened = isQueued
      ? await this.#limited(call, async (isFull) => {
          return isFull && isOnlyTask ? undefined : this.#open(call, !isFull)
        })
      : await this.#open(call, false)
    if (!opened && isOnlyTask) return failedOutcome(busy(NO_TASK), NO_TASK, order.runId)
    if (!opened) return execute({ signal, progress })
    switch (opened.type) {
      case 'new': {
        const { live } = opened
        live.begin(() => execute(live.sink(progress)))
        const outcome = live.join(signal)
        // A call that the engine cannot take stays a call.
        if (isQueued) return outcome
        return this.#patiently(call, { outcome, keep: () => live.keep(call), isReplayed: false })
      }
      case 'queued':
        return this.#queue(call, opened.stored)
      case 'earlier':
        return this.#repeat(call, opened.stored)
      case 'result':
      case 'input': // executes nothing, and is reported
        return execute({ signal, progress, live: { run: async () => opened } })
    }
  }

  /** Returns a task with its result, error or open questions. @throws ProtocolError -32602; GatewayError `UNAVAILABLE` */
  async get(reference: TaskReference): Promise<Readonly<Record<string, unknown>>> {
    const { call } = await this.#calls.current(await this.#find(reference))
    return isTask(call) ? toDetailedTask(call) : unknownTask(reference)
  }

  /**
   * Waits until a task has ended or asks, and at most for a time.
   *
   * @throws ProtocolError -32602; GatewayError `UNAVAILABLE`
   */
  async settled(
    reference: TaskReference,
    { ms, signal }: { readonly ms: number; readonly signal: AbortSignal },
  ): Promise<TaskCallRecord> {
    const { store } = this.#calls
    const look = (latest: StoredCall): Promise<StoredCall> => this.#calls.current(latest)
    const found = await look(await this.#find(reference))
    await store.start().catch(() => {}) // then changes are noticed later
    const settled = await store.settled(found, { look, ms, signal })
    return settled && isTask(settled.call) ? settled.call : unknownTask(reference)
  }

  /**
   * Stores answers. With the last one, the call is continued.
   *
   * @returns which answers were not taken
   * @throws ProtocolError -32602, or of `prepare`; GatewayError `UNAVAILABLE`
   */
  async update(
    reference: TaskReference,
    responses: Readonly<Record<string, unknown>>,
    prepare: Prepare,
  ): Promise<UntakenAnswers> {
    const { clock } = this.#options
    for (;;) {
      const found = await this.#calls.current(await this.#find(reference))
      const { call } = found
      const { state, task } = call
      if (state.status !== 'asking') return NOTHING_UNTAKEN
      const added = newAnswers(call, responses)
      const untaken = { unknown: unknownKeys(call, responses), refused: undefined }
      if (Object.keys(added).length === 0) return untaken
      if (!areLast(call, added)) {
        const next = nextCall(call, { type: 'given', responses: added }, clock.now())
        if (await this.#calls.store.replace(found, next)) return untaken
        continue
      }
      const given = { ...state.given, ...added }
      const all = { ...prepare(call), responses: given, task, isPlain: false }
      const answered = await this.#calls.answer(found, all)
      if (!answered) continue
      const { reading, stored } = answered
      const { round, state: next } = stored.call
      if (next.status === 'running') await this.#calls.submit(stored)
      return reading.type === 'errors' ? { ...untaken, refused: { reading, round } } : untaken
    }
  }

  /** Ends a task as cancelled, unless it has ended. @throws ProtocolError -32602; GatewayError `UNAVAILABLE` */
  async cancel(reference: TaskReference): Promise<void> {
    const found = await this.#find(reference)
    if (found.call.state.status !== 'ended') await this.#calls.cancel(found)
  }

  /** @throws ProtocolError -32602; GatewayError `UNAVAILABLE` */
  async #find(reference: TaskReference): Promise<StoredCall & { readonly call: TaskCallRecord }> {
    const { owner, taskId } = reference
    const runId = runIdOfTask(taskId)
    const found = runId === undefined ? undefined : await this.#calls.store.read(runId)
    const call = found && taskOf(found.call, taskId)
    return found && call?.task.owner === owner ? { ...found, call } : unknownTask(reference)
  }

  /** @returns `undefined` for a call that is made without a task, because the store is away: its run reports that */
  async #open(call: TaskCall, isQueued: boolean): Promise<OpenedCall | undefined> {
    const { clock, onError } = this.#options
    const { order, owner, tool } = call
    const open = async (): Promise<OpenedCall> => {
      if (isQueued) await this.#calls.store.start()
      return this.#calls.open({ tool, order, queuedFor: isQueued ? owner : undefined })
    }
    try {
      // Without the record, a call for other processes would run without its guarantees.
      return await whenBack(open, { clock, ms: isQueued ? AWAY_MS : 0 })
    } catch (cause) {
      if (cause instanceof ProtocolError) throw cause
      if (cause instanceof RunFailure) return failedOutcome(cause, '', order.runId)
      if (!isQueued) return undefined
      onError(new Error(STAYS_CALL, { cause }))
      this.#calls.withdraw({ tool, order })
      return undefined
    }
  }

  /** Waits for the outcome of a call for two seconds. Then the call becomes a task. */
  async #patiently(
    call: TaskCall,
    { isReplayed, keep, outcome }: PatientCall,
  ): Promise<ToolOutcome | BegunTask> {
    const first = await this.#soon(outcome)
    if (first && (first.type === 'result' || first.isBeforeTask === true)) return first
    try {
      const stored = await this.#limited(call, async (isFull) => (isFull ? undefined : keep()))
      if (stored && isTask(stored.call)) return { type: 'task', task: stored.call, isReplayed }
    } catch (cause) {
      this.#options.onError(new Error(STAYS_CALL, { cause }))
    }
    return outcome
  }

  /** Returns the task or the outcome of an earlier call. */
  async #repeat(call: TaskCall, found: StoredCall): Promise<ToolOutcome | BegunTask> {
    const { order, tool } = call
    // If the store is away, the client learns later how the task ended.
    const current = await this.#calls.current(found).catch(() => found)
    const known = await this.#afterPatience(call, current)
    const isEarly = known.updatedAt - known.createdAt < PATIENCE_MS
    if (isTask(known) && isEarly && this.#isTakenBack(call, known)) {
      return toReplayed(this.#outcomeOf(call, known)) // later, the client of the first request has the task
    }
    if (isTask(known)) return { type: 'task', task: known, isReplayed: true }
    const waiting = new AbortController()
    const signal = AbortSignal.any([call.signal, waiting.signal])
    const sink = { signal, progress: undefined }
    const repeating = this.#calls
      .repeat(found, { tool, order, sink })
      .catch((error: unknown) => failedOutcome(error, STAYS_CALL, order.runId))
    const keep = async (): Promise<StoredCall | undefined> => {
      const kept = await this.#calls.keep(found, call)
      if (kept) waiting.abort()
      return kept
    }
    return this.#patiently(call, { outcome: repeating, keep, isReplayed: true })
  }

  /** Queues a call that any process may execute, and waits for an early end. @throws ProtocolError of the call */
  async #queue(call: TaskCall, begun: StoredCall): Promise<ToolOutcome | BegunTask> {
    const { isAlways, signal } = call
    const { store } = this.#calls
    await this.#calls.submit(begun)
    const settled = isAlways ? undefined : await store.settled(begun, { signal, ms: PATIENCE_MS })
    const found = settled ?? begun
    const hasKey = found.call.key !== undefined
    if (signal.aborted && !hasKey) {
      await this.#calls.cancel(found) // no client has its id
      signal.throwIfAborted()
    }
    if (!this.#isTakenBack(call, found.call)) return begunTask(found.call)
    const isKept = hasKey || found.call.state.status === 'asking'
    const returned = isKept ? store.apply(found, { type: 'returned' }) : store.delete(found)
    await returned.catch(() => {}) // then the task stays until it expires
    return this.#outcomeOf(call, found.call)
  }

  /** Returns whether the first request for a queued call returns its outcome, and is a task no longer. */
  #isTakenBack({ isAlways }: TaskCall, call: CallRecord): boolean {
    const { asked, state, task } = call
    if (task === undefined) return true
    if (isAlways || !isQueuedFirst(call)) return false
    if (state.status === 'ended') return state.end.type !== 'cancelled'
    return asked?.questions.every((question) => question.isBeforeTask === true) ?? false
  }

  /** Waits until the first request for a queued call knows whether its task stays. Its time ends sooner. */
  async #afterPatience({ isAlways, signal }: TaskCall, found: StoredCall): Promise<CallRecord> {
    if (isAlways || !isTask(found.call) || !isQueuedFirst(found.call)) return found.call
    const waiting = { signal, ms: PATIENCE_MS }
    return (await this.#calls.store.settled(found, waiting))?.call ?? found.call
  }

  #outcomeOf({ order, tool }: TaskCall, call: CallRecord): ToolOutcome {
    try {
      return outcomeOf({ ...call, task: undefined }, { order, tool })
    } catch (error) {
      return failedOutcome(error, STAYS_CALL, order.runId)
    }
  }

  #soon(outcome: Promise<ToolOutcome>): Promise<ToolOutcome | undefined> {
    const { clock } = this.#options
    return inTime<ToolOutcome | undefined>(outcome, {
      clock,
      ms: PATIENCE_MS,
      late: () => undefined,
    })
  }

  /** @param create gets whether the caller has too many tasks, with those that are being stored */
  async #limited<T>({ order }: TaskCall, create: (isFull: boolean) => Promise<T>): Promise<T> {
    const { maxPerPrincipal } = this.#options
    const { store } = this.#calls
    const account = accountHashOf(order)
    const others = this.#creating.get(account) ?? 0
    this.#creating.set(account, others + 1)
    try {
      const count = await store.countTasks(account).catch(() => 0) // the store is away: the write fails too
      return await create(store.isEnding || count + others >= maxPerPrincipal)
    } finally {
      const left = (this.#creating.get(account) ?? 0) - 1
      if (left > 0) this.#creating.set(account, left)
      else this.#creating.delete(account)
    }
  }
}

/** Whether a call was queued before it began. It has got no answers yet. */
function isQueuedFirst({ answered, isDurable }: CallRecord): boolean {
  return isDurable && answered === undefined
}

function begunTask(call: CallRecord): BegunTask | ToolOutcome {
  if (!isTask(call)) throw new TypeError('A queued call is a task')
  return { type: 'task', task: call, isReplayed: false }
}

function unknownTask({ taskId }: TaskReference): never {
  // The same for a task of somebody else.
  const text = `Unknown task "${taskId.slice(0, 13)}…": it does not exist, has expired, was continued by another call, or belongs to another caller. Check what its call did before you make it again.`
  throw new ProtocolError(ProtocolErrorCode.InvalidParams, text, { reason: 'unknown_task' })
}

/** Returns the owner of the tasks of a caller. Callers without a name and a session share one owner: the id of a task cannot be guessed. */
export function taskOwnerOf(caller: Caller): string {
  return ownerOf(caller) ?? hashOf([caller.principal.id, null])
}
