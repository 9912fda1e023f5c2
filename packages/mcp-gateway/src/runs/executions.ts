import { ProtocolErrorCode, type CallToolResult } from '@modelcontextprotocol/server'

import type { RunTool } from '../agents/agent.ts'
import { sleep } from '../internal/clock.ts'
import { randomHex } from '../internal/random-hex.ts'
import { hashOf, wholeCharacters } from '../internal/text.ts'
import type { EventLogs } from '../store/gateway-store.ts'
import {
  canEndLate,
  newCall,
  nextCall,
  toEnd,
  toErrorEnd,
  withEarlierFiles,
  type CallEnd,
  type CallEvent,
  type CallRecord,
  type NewCall,
} from './call-record.ts'
import type { CallStore, StoredCall } from './call-store.ts'
import { LiveCall } from './live-call.ts'
import {
  isStorable,
  type Execution,
  type RunEnding,
  type RunOrder,
  type RunProgress,
  type RunSink,
  type RunStorage,
  type ToolOutcome,
} from './order.ts'
import { questionsOutcome } from './questions.ts'
import { failedOutcome } from './result.ts'
import { forgetState } from './run.ts'

export interface ExecutionsOptions extends RunStorage {
  /** Tells other processes of changes. `undefined`: there are none. */
  readonly logs: EventLogs | undefined
  /** Another process, or this one after a restart, can read the calls of this process. */
  readonly outlive: boolean
  /** Time for which a task is kept after its end. */
  readonly taskTtlMs: number
  readonly onError: (error: Error) => void
  /** Executes an agent, up to its result or its questions. */
  readonly execute: (execution: Execution) => Promise<RunEnding>
}

interface KeptCall {
  /** Hash of the caller that may use the task. */
  readonly owner: string
  readonly tool: RunTool
  readonly order: RunOrder
}

type Asked = Extract<RunEnding, { type: 'asked' }>
type KeptEvent = Extract<CallEvent, { type: 'kept' }>

/** Time between two attempts to reach a store that is away. */
const RETRY_MS = 1000
/** Time between two messages of progress that are stored. */
const PROGRESS_MS = 1000
const MAX_MESSAGE_CHARS = 1000
const NOT_STORED = 'The state of a task cannot be stored now'

const STOPPED: CallEnd = {
  type: 'error',
  error: {
    code: ProtocolErrorCode.InternalError,
    message:
      'The gateway was stopped before this task ended. Check what it did before you call again.',
    data: { reason: 'cancelled' },
  },
}

/** Executes calls in this process, and stores the questions and the ends of those that have a record. */
export class Executions {
  readonly #options: ExecutionsOptions
  readonly #store: CallStore
  /** Calls with a record. */
  readonly #live = new Map<string, LiveCall>()
  #isClosed = false

  constructor(store: CallStore, options: ExecutionsOptions) {
    this.#store = store
    this.#options = options
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /** From now on, a run that ends because it is stopped has not ended, if another process can go on with it. */
  close(): void {
    this.#isClosed = true
  }

  /** Resolves when the ends of all executions are stored. */
  async ended(): Promise<void> {
    await Promise.all([...this.#live.values()].map(({ done }) => done))
  }

  find(runId: string): LiveCall | undefined {
    return this.#live.get(runId)
  }

  /** Begins an execution. Its end is stored when `live.done` resolves. */
  begin(live: LiveCall, execute: () => Promise<ToolOutcome>): void {
    if (live.stored) this.#attend(live)
    live.outcome = execute()
    live.done = this.#untilDone(live, live.outcome)
  }

  /** Returns the connection of an execution that may become a task. */
  sinkOf(live: LiveCall, progress?: RunProgress): RunSink {
    return {
      live,
      signal: live.signal,
      progress: (piece) => {
        if (!live.isTask) return progress?.(piece)
        this.#note(live, piece.message)
      },
      remote: {
        joined: live.remote,
        store: (state) => this.#storeRemote(live, state),
        isOwn: () => this.#isOwn(live),
        isLeft: () => this.isLeft(live),
      },
    }
  }

  /** Runs the agent of a call up to its result or its next questions, and stores them if the call has a record. */
  async run(execution: Execution, live: LiveCall): Promise<ToolOutcome> {
    const call = live.stored?.call
    const { asked, files, progress = 0 } = call ?? {}
    const { answers, state } = asked ?? {}
    const resume = answers && !asked?.beginsAnew ? { state, answers } : undefined
    const earlier = asked && { resume, files, progress }
    // Most calls begin as they were given, and a copy of all fields costs more than the rest of this function.
    const isAsGiven = call === undefined && live.runId === execution.order.runId
    // Answers may come without the arguments of the call.
    const conversation = call?.conversation ?? execution.order.conversation
    const order = isAsGiven
      ? execution.order
      : { ...execution.order, runId: live.runId, conversation }
    const running = isAsGiven ? execution : { ...execution, order, earlier }
    let ending: RunEnding
    try {
      ending = await this.#options.execute(running)
    } catch (error) {
      await this.#end(live, toErrorEnd(error))
      throw error
    }
    if (ending.type === 'asked') return this.#ask(running, live, ending)
    const { isStarted } = ending
    const result = withEarlierFiles(ending.result, files?.blocks ?? [])
    // An engine tries again before the call ends.
    if (isStarted !== false || !live.attempt) await this.#end(live, toEnd(result), isStarted)
    return { type: 'result', result, isStarted }
  }

  /**
   * Makes a call in flight, or one that has asked, a task.
   *
   * @param call a stored one is executed by another process
   * @returns `undefined` if it has ended
   * @throws GatewayError `UNAVAILABLE`
   */
  async keep(call: LiveCall | StoredCall, kept: KeptCall): Promise<StoredCall | undefined> {
    const { order: given, owner, tool } = kept
    const runId = call instanceof LiveCall ? call.runId : call.call.runId
    const order = { ...given, runId, resume: undefined }
    const expiresAt: KeptEvent['expiresAt'] = (status) => this.expiryOf(status, true, tool)
    const event: KeptEvent = { type: 'kept', owner, order, expiresAt }
    if (!(call instanceof LiveCall)) return this.#store.apply(call, event)
    if (call.isOver && !call.stored) return undefined
    const keeping = this.#keep(call, tool, event)
    call.keeping = keeping.catch(() => {})
    return keeping
  }

  async #keep(live: LiveCall, tool: RunTool, event: KeptEvent): Promise<StoredCall | undefined> {
    const { clock, lease } = this.#options
    const now = clock.now()
    await this.#store.start()
    if (live.stored) live.stored = await this.#store.apply(live.stored, event)
    else {
      live.releaseLease = await lease.hold()
      const expiresAt = event.expiresAt('running')
      const call = newCall({ ...newCallOf(tool, event.order), expiresAt }, lease.id, now)
      live.stored = await this.#store.create(nextCall(call, event, now))
      this.#attend(live)
    }
    return live.isTask ? live.stored : undefined
  }

  /** Returns when a call expires that runs, asks or has ended. */
  expiryOf(status: CallRecord['state']['status'], isTask: boolean, tool?: RunTool): number {
    const { clock, maxRunMs, needsInputTtlMs, repeatTtlMs, taskTtlMs } = this.#options
    const now = clock.now()
    if (status === 'asking') return now + needsInputTtlMs + (isTask ? taskTtlMs : 0)
    const ttlMs = isTask ? taskTtlMs : repeatTtlMs
    return now + ttlMs + (status === 'running' && tool ? maxRunMs(tool) : 0)
  }

  /** Returns whether another process goes on with a task, because this one stops or has lost it. */
  isLeft({ attempt, isTask, remote }: LiveCall): boolean {
    if (!isTask) return false
    const isLeaving = attempt?.leaving.aborted
      ? attempt.leaving.reason !== 'cancelled'
      : this.#isClosed && this.#options.outlive
    return isLeaving && (attempt?.canContinue === true || remote !== undefined)
  }

  /** Lets an agent delete the state of a question that will not be answered. */
  forget({ agentId }: CallRecord, state: unknown): void {
    forgetState(this.#options.agents.sourceOf(agentId), agentId, state)
  }

  /**
   * Applies an event of a task. While the store is away, tries again until the call expires: nothing else does.
   *
   * @throws GatewayError `UNAVAILABLE` for a plain call
   */
  async store(found: StoredCall, event: CallEvent): Promise<StoredCall | undefined> {
    const { clock, onError } = this.#options
    const { call } = found
    for (let isFirst = true; ; isFirst = false) {
      try {
        const stored = await this.#store.apply(found, event)
        if (stored && stored.call.attempt === call.attempt) this.report(stored.call)
        return stored
      } catch (cause) {
        if (!call.task || this.#isClosed || clock.now() >= call.expiresAt) throw cause
        if (isFirst) onError(new Error(NOT_STORED, { cause }))
      }
      await sleep(clock, RETRY_MS)
    }
  }

  /** Writes to the log that a task has failed. */
  report({ runId, state, task, tool }: CallRecord): void {
    if (!task || state.status !== 'ended' || state.end.type !== 'error') return
    const text = `The task of the run ${runId} of ${tool} failed: ${state.end.error.message}`
    this.#options.onError(new Error(text))
  }

  async #untilDone(live: LiveCall, running: Promise<ToolOutcome>): Promise<void> {
    let end: CallEnd | undefined
    let isStarted: boolean | undefined
    try {
      const outcome = await running
      if (outcome.type === 'result') {
        end = toEnd(outcome.result)
        isStarted = outcome.isStarted
      }
    } catch (error) {
      end = toErrorEnd(error)
    }
    live.isOver = true
    if (end) await this.#end(live, end, isStarted)
    else await live.keeping
    live.undoWatch?.()
    live.undoNote?.()
    live.releaseLease?.()
    if (this.#live.get(live.runId) === live) this.#live.delete(live.runId)
  }

  /** Learns of changes by others: the call was cancelled, became a task, or is executed by another process. */
  #attend(live: LiveCall): void {
    const { logs } = this.#options
    const { number, runId } = live
    this.#live.set(runId, live)
    const look = async (): Promise<void> => {
      const latest = await this.#store.read(runId)
      const isOwn = latest?.call.attempt === number
      if (isOwn && latest.call.state.status === 'running') live.stored = latest
      // Its client waits for the result, which replaces the end that another process has stored.
      else if (!isOwn || !canEndLate(latest.call)) live.stop()
    }
    live.undoWatch = this.#store.watch(runId, (isForeign) => {
      // If the store is away, the end of the execution changes nothing.
      if (isForeign && !live.isSettled) look().catch(() => {})
    })
    if (logs) {
      // Another process may have made the call a task a moment ago.
      live.onAbandoned = (reason) => {
        const stop = (): void => live.stop(reason)
        void look().then(() => live.isTask || stop(), stop)
      }
    }
    const { state } = live.stored?.call ?? {}
    const known = state?.status === 'running' ? state.remote : undefined
    if (live.remote !== known) void this.#storeRemote(live, live.remote)
  }

  async #ask(execution: Execution, live: LiveCall, ending: Asked): Promise<ToolOutcome> {
    const { order, tool } = execution
    const { clock, lease } = this.#options
    await live.keeping
    const isTask = live.isTask
    const expiresAt = (status: CallRecord['state']['status']): number =>
      this.expiryOf(status, isTask)
    const facts = { ...newCallOf(tool, order), expiresAt: expiresAt('asking') }
    const before = live.stored?.call ?? newCall(facts, lease.id, clock.now())
    const { beginsAnew, files, progress, questions, state } = ending
    const attempt = live.number
    const asked = {
      type: 'asked',
      attempt,
      beginsAnew,
      files,
      progress,
      questions,
      state,
      told: undefined,
      expiresAt,
    } as const
    const next = nextCall(before, asked, clock.now())
    const shown = questionsOutcome(next, { client: order.client, tool })
    const told = isTask && shown.type === 'result' ? shown.result : undefined
    let failure: unknown
    let stored: StoredCall | undefined
    try {
      stored = live.stored
        ? await this.store(live.stored, { ...asked, told })
        : await this.#store.create(next)
      live.stored = stored ?? live.stored
      // The call became a task at the same moment: then its record was there, and has no question yet.
      const isTaskNow = !isTask && stored?.call.state.status === 'running' && live.isTask
      if (isTaskNow) return await this.#ask(execution, live, ending)
      live.isSettled = true
    } catch (error) {
      failure = error
    }
    const call = stored?.call
    if (call?.attempt === attempt) {
      if (call.state.status === 'asking')
        return questionsOutcome(call, { client: order.client, tool })
      this.forget(call, state)
      if (call.state.status === 'ended' && call.state.end.type === 'result') {
        return { type: 'result', result: call.state.end.result }
      }
    } else if (!call) this.forget(before, state)
    const text = 'The agent has a question, but the gateway cannot store the paused run now.'
    return failedOutcome(failure, text, live.runId)
  }

  /** Stores how an execution ended, once. */
  async #end(live: LiveCall, given: CallEnd, isStarted?: boolean): Promise<void> {
    await live.keeping
    const found = live.stored
    if (!found || live.isSettled) return
    const end = this.#storable(live, given)
    if (isCancellation(end) && this.isLeft(live)) return
    live.isSettled = true
    const { call } = found
    const { task } = call
    const attempt = live.number
    try {
      const isFirst = call.round === 0 && claimsOf(call) === 1
      if (isStarted === false && isFirst) await this.#store.releaseKey(call)
      if (isStarted === false && !task && (await this.#undo(found, attempt))) return
      const expiresAt = this.expiryOf('ended', task !== undefined)
      live.stored = await this.store(found, { type: 'ended', attempt, end, expiresAt })
    } catch {
      // A repeat of the call does not learn how it ended.
    }
  }

  /** Lets a call that its agent did not get be made, or answered, again. @returns `false` if it became a task */
  async #undo(found: StoredCall, attempt: number): Promise<boolean> {
    if (!found.call.asked) return this.#store.delete(found)
    const expiresAt = this.expiryOf('asking', false)
    await this.#store.apply(found, { type: 'unstarted', attempt, expiresAt })
    return true
  }

  #storable({ isTask }: LiveCall, end: CallEnd): CallEnd {
    if (end.type !== 'result') return end
    const reason = reasonOf(end.result)
    if (isTask && this.#isClosed && reason === 'cancelled') return STOPPED
    if (reason === 'outcome_unknown') return toUnknown(end.result)
    return isTask || isStorable(end.result) ? end : { type: 'unkept' }
  }

  /** Returns whether no other process has the call of an execution. If the store is away, one may have it. */
  async #isOwn({ number, runId, stored }: LiveCall): Promise<boolean> {
    if (!stored) return true
    const latest = await this.#store.read(runId).catch(() => undefined)
    return latest?.call.attempt === number
  }

  /** Stores with which state another process joins the run of an execution. */
  async #storeRemote(live: LiveCall, remote: unknown): Promise<void> {
    live.remote = remote
    const { stored } = live
    if (!stored) return // it is stored with the task, if the call becomes one
    const event: CallEvent = { type: 'remote', attempt: live.number, remote }
    // If the store is away, the run does not wait for it.
    await this.#store.apply(stored, event).then(
      (latest) => (live.stored = latest ?? stored),
      () => void this.store(stored, event).catch(() => {}),
    )
  }

  /** Stores progress, at most once a second. */
  #note(live: LiveCall, message: string): void {
    live.message = wholeCharacters(message, MAX_MESSAGE_CHARS)
    live.undoNote ??= this.#options.clock.after(PROGRESS_MS, () => {
      live.undoNote = undefined
      const { message: newest, stored } = live
      if (!stored) return
      const attempt = live.number
      // After a failure, the next message tries again.
      this.#store.apply(stored, { type: 'progress', attempt, message: newest }).then(
        (latest) => (live.stored = latest ?? stored),
        () => {},
      )
    })
  }
}

/** The parts of a new record that a call without a key and without a task has. */
export function newCallOf(tool: RunTool, order: RunOrder): Omit<NewCall, 'expiresAt'> {
  return {
    runId: order.runId,
    secret: randomHex(8),
    agentId: tool.agent.id,
    skillId: tool.skill.id,
    tool: tool.name,
    principal: order.principal.id,
    args: hashOf(order.arguments ?? {}),
    conversation: order.conversation,
    isDurable: false,
  }
}

/** Returns whether an execution ended because its run was stopped. */
function isCancellation(end: CallEnd): boolean {
  return end.type === 'result' ? reasonOf(end.result) === 'cancelled' : end.type === 'error'
}

function toUnknown({ content, _meta: meta }: CallToolResult): CallEnd {
  const [first] = content
  const message = first?.type === 'text' ? first.text : 'The outcome is not known.'
  const code = ProtocolErrorCode.InternalError
  return { type: 'error', error: { code, message, data: meta } }
}

function claimsOf({ state }: CallRecord): number {
  return state.status === 'running' ? state.claims : 0
}

export function reasonOf({ _meta: meta }: CallToolResult): unknown {
  return meta?.['reason']
}
