import { ProtocolErrorCode, type CallToolResult } from '@modelcontextprotocol/server'

import type { RunTool } from '../agents/agent.ts'
import type { EarlierFiles } from '../files/result-files.ts'
import { randomHex } from '../internal/random-hex.ts'
import { hashOf, wholeCharacters } from '../internal/text.ts'
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
import { questionsOutcome } from './call-outcome.ts'
import type { CallStore, CallStoreOptions, StoredCall } from './call-store.ts'
import {
  isStorable,
  type Execution,
  type RunEnding,
  type RunOrder,
  type RunProgress,
  type RunSink,
  type ToolOutcome,
} from './order.ts'
import { failedOutcome } from './result.ts'
import type { Runs } from './runs.ts'
import { whenBack } from '../store/gateway-store.ts'

/** Parts of the process that all executions use. */
export interface LiveParts extends Pick<CallStoreOptions, 'clock' | 'lease' | 'logs'> {
  readonly store: CallStore
  readonly runs: Runs
  /** Another process, or this one after a restart, can read the calls of this process. */
  readonly outlive: boolean
  /** Executions of calls with a record, by the id of the run. */
  readonly live: Map<string, LiveCall>
}

interface LiveCallOptions {
  readonly runId: string
  /** Its record. `undefined`: the call has none, unless it asks or becomes a task. */
  readonly stored?: StoredCall | undefined
  /** The execution belongs to an engine, and takes place again while its agent is busy or absent. */
  readonly attempt?: LiveAttempt | undefined
}

interface LiveAttempt {
  /** As `RunAttempt.signal`. */
  readonly leaving: AbortSignal
  /** Another process can continue the call after this one. */
  readonly canContinue: boolean
}

/** A call that becomes a task. */
export interface KeptCall {
  /** Hash of the caller that may use the task. */
  readonly owner: string
  readonly tool: RunTool
  readonly order: RunOrder
}

type Asked = Extract<RunEnding, { type: 'asked' }>
type KeptEvent = Extract<CallEvent, { type: 'kept' }>

/** Time between two messages of progress that are stored. */
const PROGRESS_MS = 1000
const MAX_MESSAGE_CHARS = 1000
/** Time for which a file waits for a store that is away. A run that is stopped has more time to end. */
const FILES_MS = 1000

const UNSTORED = 'The agent has a question, but the gateway cannot store the paused run now.'

const STOPPED: CallEnd = {
  type: 'error',
  error: {
    code: ProtocolErrorCode.InternalError,
    message:
      'The gateway was stopped before this task ended. Check what it did before you call again.',
    data: { reason: 'cancelled' },
  },
}

/**
 * One execution of a call in this process, up to its result or its next questions. Requests for the same call join it. It
 * stores the questions and the end of a call that has a record.
 */
export class LiveCall {
  readonly runId: string
  /** Number of the execution, as `CallRecord.attempt`. */
  readonly number: number
  stored: StoredCall | undefined
  /** Settles when the end of the execution is stored, or when the store is away: clients do not wait for the store. */
  outcome: Promise<ToolOutcome> | undefined
  /** Resolves when the end of the execution is stored. Never rejects. */
  done: Promise<unknown> = Promise.resolve()
  releaseLease: (() => void) | undefined
  readonly #parts: LiveParts
  readonly #attempt: LiveAttempt | undefined
  readonly #stop = new AbortController()
  /** The outcome for clients if the store is away when the execution ends or asks. */
  readonly #early = Promise.withResolvers<ToolOutcome>()
  /** As `RemoteRun`: the run that the execution joins, or has begun. */
  #remote: unknown
  /** Is in flight while the call becomes a task. */
  #keeping: Promise<unknown> | undefined
  /** The agent has ended. Then the call cannot become a task. */
  #isOver = false
  /** Its end or its question is stored. */
  #isSettled = false
  /** Number of requests that wait for the outcome. */
  #waiting = 0
  #message = ''
  #undoNote: (() => void) | undefined
  /** Ends when the files so far are stored. */
  #filing: Promise<void> | undefined
  #undoWatch: (() => void) | undefined

  constructor(parts: LiveParts, { attempt, runId, stored }: LiveCallOptions) {
    this.#parts = parts
    this.runId = runId
    this.#attempt = attempt
    this.stored = stored
    this.number = stored?.call.attempt ?? 1
    const state = stored?.call.state
    if (state?.status === 'running') this.#remote = state.remote
  }

  get signal(): AbortSignal {
    return this.#stop.signal
  }

  get isTask(): boolean {
    return this.stored?.call.task !== undefined
  }

  /** Another process goes on with the task, because this one stops or has lost it. */
  get isLeft(): boolean {
    if (!this.isTask) return false
    const { outlive, store } = this.#parts
    const { canContinue = false, leaving } = this.#attempt ?? {}
    const isLeaving = leaving?.aborted ? leaving.reason !== 'cancelled' : store.isEnding && outlive
    return isLeaving && (canContinue || this.#remote !== undefined)
  }

  stop(reason?: unknown): void {
    this.#stop.abort(reason)
  }

  begin(execute: () => Promise<ToolOutcome>): void {
    if (this.stored) this.#attend()
    const stored = this.#untilStored(execute())
    this.done = stored.catch(() => {})
    this.outcome = Promise.race([stored, this.#early.promise])
    this.outcome.catch(() => {}) // no request may wait for the outcome
  }

  /** Waits for the outcome. @param signal aborts when the request gives up */
  async join(signal: AbortSignal): Promise<ToolOutcome> {
    this.#waiting++
    const leave = (): void => {
      this.#waiting--
      if (this.#waiting === 0 && !this.isTask) this.#abandon(signal.reason)
    }
    if (signal.aborted) leave()
    else signal.addEventListener('abort', leave, { once: true })
    try {
      if (!this.outcome) throw new Error('The call has not begun')
      return await this.outcome
    } finally {
      signal.removeEventListener('abort', leave)
    }
  }

  /** Returns the connection of an execution that may become a task. */
  sink(progress?: RunProgress): RunSink {
    return {
      live: this,
      signal: this.signal,
      progress: (piece) => {
        if (!this.isTask) return progress?.(piece)
        this.#note(piece.message)
      },
      remote: {
        joined: this.#remote,
        store: (state) => this.#storeRemote(state),
        isOwn: () => this.#isOwn(),
        isLeft: () => this.isLeft,
      },
      keepFiles: this.#attempt?.canContinue === true ? this.#keepFiles : undefined,
    }
  }

  /** Runs the agent of the call, from its beginning or with the answers to its last questions. */
  async run(execution: Execution): Promise<ToolOutcome> {
    const call = this.stored?.call
    const { asked, files, progress = 0 } = call ?? {}
    const { answers, state } = asked ?? {}
    const resume = answers && !asked?.beginsAnew ? { state, answers } : undefined
    // Answers may come without the arguments of the call.
    const conversation = call?.conversation ?? execution.order.conversation
    const order = { ...execution.order, runId: this.runId, conversation }
    const earlier = asked || files ? { resume, files, progress } : undefined
    const running = { ...execution, order, earlier }
    const ending = await this.#parts.runs.execute(running)
    if (ending.type === 'asked') return this.ask(running, ending)
    return { ...ending, result: withEarlierFiles(ending.result, files?.blocks ?? []) }
  }

  /** Stores the questions of the agent, in a new record if the call has none. */
  async ask(execution: Execution, ending: Asked): Promise<ToolOutcome> {
    const { order, tool } = execution
    const { clock, lease, runs, store } = this.#parts
    await this.#keeping
    const isTask = this.isTask
    const expiresAt: KeptEvent['expiresAt'] = (status) => store.expiryOf(status, isTask)
    const before =
      this.stored?.call ??
      newCall({ ...newCallOf(tool, order), expiresAt: expiresAt('asking') }, lease.id, clock.now())
    const { beginsAnew, files, progress, questions, state } = ending
    const attempt = this.number
    const found = { beginsAnew, files, progress, questions, state }
    const asked = { type: 'asked', attempt, ...found, told: undefined, expiresAt } as const
    const next = nextCall(before, asked, clock.now())
    const shown = questionsOutcome(next, { client: order.client, tool })
    const told = isTask && shown.type === 'result' ? shown.result : undefined
    let failure: unknown
    let stored: StoredCall | undefined
    try {
      const { stored: earlier } = this
      const event = { ...asked, told }
      const early = (): void => this.#early.resolve(failedOutcome(undefined, UNSTORED, this.runId))
      stored = earlier
        ? await store.patiently(earlier, () => store.apply(earlier, event), early)
        : await store.create(next)
      this.stored = stored ?? this.stored
      // The call became a task at the same moment: then its record was there, and has no question yet.
      const isTaskNow = !isTask && stored?.call.state.status === 'running' && this.isTask
      if (isTaskNow) return await this.ask(execution, ending)
      this.#isSettled = true
    } catch (error) {
      failure = error
    }
    const call = stored?.call
    if (call?.attempt === attempt) {
      if (call.state.status === 'asking')
        return questionsOutcome(call, { client: order.client, tool })
      runs.forgetState(call.agentId, state)
      if (call.state.status === 'ended' && call.state.end.type === 'result') {
        return { type: 'result', result: call.state.end.result }
      }
    } else if (!call) runs.forgetState(before.agentId, state)
    return failedOutcome(failure, UNSTORED, this.runId)
  }

  /**
   * Makes the call a task.
   *
   * @returns `undefined` if it has ended
   * @throws GatewayError `UNAVAILABLE`
   */
  async keep(kept: KeptCall): Promise<StoredCall | undefined> {
    if (this.#isOver && !this.stored) return undefined
    const keeping = this.#keep(kept)
    this.#keeping = keeping.catch(() => {})
    return keeping
  }

  async #keep(kept: KeptCall): Promise<StoredCall | undefined> {
    const { clock, lease, store } = this.#parts
    const event = keptEvent(this.runId, kept, store)
    const now = clock.now()
    await store.start()
    if (this.stored) this.stored = await store.apply(this.stored, event)
    else {
      this.releaseLease = await lease.hold()
      const expiresAt = event.expiresAt('running')
      const call = newCall({ ...newCallOf(kept.tool, event.order), expiresAt }, lease.id, now)
      this.stored = await store.create(nextCall(call, event, now))
      this.#attend()
    }
    return this.isTask ? this.stored : undefined
  }

  async #untilStored(running: Promise<ToolOutcome>): Promise<ToolOutcome> {
    const early = (): void => this.#early.resolve(running)
    try {
      const outcome = await running
      this.#isOver = true
      if (outcome.type === 'result') await this.#end(toEnd(outcome.result), early, outcome)
      else await this.#keeping
      return outcome
    } catch (error) {
      this.#isOver = true
      await this.#end(toErrorEnd(error), early)
      throw error
    } finally {
      const { live } = this.#parts
      this.#undoWatch?.()
      this.#undoNote?.()
      this.releaseLease?.()
      if (live.get(this.runId) === this) live.delete(this.runId)
    }
  }

  /** Learns of changes by others: the call was cancelled, became a task, or is executed by another process. */
  #attend(): void {
    const { live, store } = this.#parts
    live.set(this.runId, this)
    this.#undoWatch = store.watch(this.runId, (isForeign) => {
      // If the store is away, the end of the execution changes nothing.
      if (isForeign && !this.#isSettled) this.#look().catch(() => {})
    })
    const { state } = this.stored?.call ?? {}
    const known = state?.status === 'running' ? state.remote : undefined
    if (this.#remote !== known) void this.#storeRemote(this.#remote)
  }

  async #look(): Promise<void> {
    const latest = await this.#parts.store.read(this.runId)
    const isOwn = latest?.call.attempt === this.number
    if (isOwn && latest.call.state.status === 'running') this.stored = latest
    // Its client waits for the result, which replaces the end that another process has stored. Without a record, because
    // the store has lost its data, the client of a task has nothing to wait for.
    else if (latest ? !isOwn || !canEndLate(latest.call) : this.isTask) this.stop()
  }

  /** All requests for the call were cancelled. */
  #abandon(reason: unknown): void {
    const { live, logs } = this.#parts
    const stop = (): void => this.stop(reason)
    if (!logs || live.get(this.runId) !== this) return stop()
    // Another process may have made the call a task a moment ago.
    void this.#look().then(() => this.isTask || stop(), stop)
  }

  /** Stores how the execution ended, once. */
  async #end(
    given: CallEnd,
    onAway: () => void,
    { isStarted }: { readonly isStarted?: boolean | undefined } = {},
  ): Promise<void> {
    await this.#keeping
    const { store } = this.#parts
    const found = this.stored
    if (!found || this.#isSettled) return
    const end = this.#storable(given)
    if (isCancellation(end) && this.isLeft) return
    this.#isSettled = true
    const { call } = found
    const { task } = call
    const attempt = this.number
    const isFirst = call.round === 0 && claimsOf(call) === 1
    const expiresAt = store.expiryOf('ended', task !== undefined)
    const storeEnd = async (): Promise<StoredCall | undefined> => {
      if (isStarted === false && isFirst) await store.releaseKey(call)
      if (isStarted === false && !task && (await this.#undo(found))) return found
      return store.apply(found, { type: 'ended', attempt, end, expiresAt })
    }
    try {
      this.stored = await store.patiently(found, storeEnd, onAway)
    } catch {
      // A repeat of the call does not learn how it ended.
    }
  }

  /** Lets a call that its agent did not get be made, or answered, again. @returns `false` if it became a task */
  async #undo(found: StoredCall): Promise<boolean> {
    const { store } = this.#parts
    if (!found.call.asked) return store.delete(found)
    const expiresAt = store.expiryOf('asking', false)
    await store.apply(found, { type: 'unstarted', attempt: this.number, expiresAt })
    return true
  }

  #storable(end: CallEnd): CallEnd {
    if (end.type !== 'result') return end
    const reason = reasonOf(end.result)
    if (this.isTask && this.#parts.store.isEnding && reason === 'cancelled') return STOPPED
    if (reason === 'outcome_unknown') return toUnknown(end.result)
    return this.isTask || isStorable(end.result) ? end : { type: 'unkept' }
  }

  /** Returns whether no other process has the call. If the store is away, one may have it. */
  async #isOwn(): Promise<boolean> {
    if (!this.stored) return true
    const latest = await this.#parts.store.read(this.runId).catch(() => undefined)
    return latest?.call.attempt === this.number
  }

  /** Stores with which state another process joins the run. */
  async #storeRemote(remote: unknown): Promise<void> {
    this.#remote = remote
    const { store } = this.#parts
    const { stored } = this
    if (!stored) return // it is stored with the task, if the call becomes one
    const event: CallEvent = { type: 'remote', attempt: this.number, remote }
    // If the store is away, the run does not wait for it.
    await store.apply(stored, event).then(
      (latest) => (this.stored = latest ?? stored),
      () => void store.patiently(stored, () => store.apply(stored, event)).catch(() => {}),
    )
  }

  /** Stores the files of the run, in their order: a later state has all of an earlier one. */
  readonly #keepFiles = (soFar: () => Promise<EarlierFiles>): Promise<void> => {
    const { clock, store } = this.#parts
    const before = this.#filing
    this.#filing = (async () => {
      await before
      const { stored } = this
      if (!stored) return
      try {
        const event: CallEvent = { type: 'files', attempt: this.number, files: await soFar() }
        const limits = { clock, ms: FILES_MS, signal: this.signal }
        this.stored = (await whenBack(() => store.apply(stored, event), limits)) ?? stored
      } catch {
        // The store is away. The next file tries again.
      }
    })()
    return this.#filing
  }

  /** Stores progress, at most once a second. */
  #note(message: string): void {
    const { clock, store } = this.#parts
    this.#message = wholeCharacters(message, MAX_MESSAGE_CHARS)
    this.#undoNote ??= clock.after(PROGRESS_MS, () => {
      this.#undoNote = undefined
      const { stored } = this
      if (!stored) return
      const event: CallEvent = { type: 'progress', attempt: this.number, message: this.#message }
      // After a failure, the next message tries again.
      store.apply(stored, event).then(
        (latest) => (this.stored = latest ?? stored),
        () => {},
      )
    })
  }
}

/** Returns the event with which a call in flight, or one that has asked, becomes a task. */
export function keptEvent(
  runId: string,
  { order: given, owner, tool }: KeptCall,
  store: CallStore,
): KeptEvent {
  const order = { ...given, runId, resume: undefined }
  return { type: 'kept', owner, order, expiresAt: (status) => store.expiryOf(status, true, tool) }
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
