import { ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/server'

import { BoundedMap } from '@x/internal'
import { RunFailure } from '../agents/agent.ts'
import { whenSchemasChecked } from '../agents/schemas.ts'
import { sleep } from '../internal/clock.ts'
import { BUSY, EXPIRED, outcomeOf, questionsOutcome, toReplayed } from './call-outcome.ts'
import {
  DIED,
  newCall,
  nextCall,
  outlivesProcess,
  type CallRecord,
  type TaskFacts,
} from './call-record.ts'
import { CallStore, type CallStoreOptions, type KeyEntry, type StoredCall } from './call-store.ts'
import type { RunEngine } from './engine.ts'
import { readAnswers, type AnswersReading } from './forms.ts'
import { keptEvent, LiveCall, newCallOf, type KeptCall, type LiveParts } from './live-call.ts'
import { accountHashOf } from '../internal/principal.ts'
import { randomHex } from '../internal/random-hex.ts'
import { hashOf } from '../internal/text.ts'
import {
  busy,
  isKeyEffective,
  maxRunMsOf,
  type Execution,
  type RunOrder,
  type RunStorage,
  type ToolOutcome,
} from './order.ts'
import { QueuedCredentials } from './queued-credentials.ts'
import { parseClaim, type ResumeClaim } from './request-state.ts'
import { failedOutcome } from './result.ts'
import type { Runs } from './runs.ts'

export interface CallsOptions extends RunStorage, Omit<CallStoreOptions, 'onLeft'> {
  readonly runs: Runs
  readonly engine: RunEngine
  /** The engine is one of several processes: any of them may execute a queued call. */
  readonly isEngineShared: boolean
  /** Another process, or this one after a restart, can read the calls of this process. */
  readonly outlive: boolean
}

/** A call of a tool, before it is executed. */
export interface CallRequest extends Pick<Execution, 'order' | 'tool'> {
  /** Hash of the caller of a task for the engine. `undefined`: a plain call, which begins in this process. */
  readonly queuedFor?: string | undefined
}

/** The call that a request means. An outcome: its answers were refused, or lead to more questions. */
export type OpenedCall =
  | { readonly type: 'new'; readonly live: LiveCall }
  /** Stored for the engine, and not submitted. */
  | { readonly type: 'queued'; readonly stored: StoredCall }
  /** The request repeats it. */
  | { readonly type: 'earlier'; readonly stored: StoredCall }
  | ToolOutcome

/** A queued call that was stored as one of this process, which has held its lease since then. */
interface OwnCall {
  readonly stored: StoredCall
  releaseLease: (() => void) | undefined
}

/** Answers to the questions of a stored call. */
interface GivenAnswers extends Pick<Execution, 'order' | 'tool'> {
  /** The task that the engine continues. `undefined`: this process continues a plain call. */
  readonly task: TaskFacts | undefined
  /** By the keys of the forms. */
  readonly responses: Readonly<Record<string, unknown>>
  /** As in `readAnswers()`. */
  readonly isPlain: boolean
}

const MAX_CONFLICTS = 5
/** In this time, a process that has stored a call notes that it executes it. */
const BEGIN_MS = 5000
/** A process that has died looks alive for a shorter time. */
const DEAD_MS = 5000
/** Most calls of which it is not known whether they are stored. */
const MAX_UNBEGUN = 1000
/** Most calls whose records are deleted when the store is back. */
const MAX_WITHDRAWN = 10_000
/** Time in which an agent may come to this process. */
export const AGENT_MS = 60_000
/** Time between two attempts: to reach a store that is away, and to find an agent or room for a call. */
export const RETRY_MS = 1000

/**
 * The calls of a gateway. A call is stored if it outlives its request: it has an idempotency key, has asked, or is a task.
 * Any process repeats, answers, continues and ends it: `CallRecord` says when. For all other calls, nothing is written.
 */
export class Calls {
  readonly store: CallStore
  /** As in the options. */
  readonly isEngineShared: boolean
  /** Parts for executions of this process. */
  readonly parts: LiveParts
  readonly credentials: QueuedCredentials
  readonly #options: CallsOptions
  /** Queued calls that this process begins without a claim. */
  readonly #own = new Map<string, OwnCall>()
  /**
   * Plain calls that have not begun because a write failed, by `answered.id` or `secret`. The write may have happened, and
   * then only this process may begin the call.
   */
  readonly #unbegun = new BoundedMap<string, true>(MAX_UNBEGUN)
  /** Runs whose records are deleted when the store is back. */
  readonly #withdrawn = new Set<string>()

  constructor(options: CallsOptions) {
    this.#options = options
    this.isEngineShared = options.isEngineShared
    this.store = new CallStore({ ...options, onLeft: (found) => this.#cleanUp(found) })
    this.parts = { ...options, store: this.store, live: new Map() }
    this.credentials = new QueuedCredentials(this.store, options)
  }

  /** Ends all waits, stops the runs after `graceMs`, and resolves when the ends of all executions are stored. */
  async close(graceMs = 0): Promise<void> {
    this.store.endWaits()
    await this.#options.runs.close(graceMs)
    this.credentials.close()
    await Promise.all([...this.parts.live.values()].map((live) => live.done))
    await this.store.stop()
  }

  /** Makes a plain call, repeats an earlier one, continues one with answers, or executes one that has begun. */
  async call(execution: Execution): Promise<ToolOutcome> {
    const { order, sink, tool } = execution
    const { idempotencyKey, resume, runId } = order
    if (sink.live) return sink.live.run(execution)
    if (resume === undefined && idempotencyKey === undefined) {
      const ending = await this.#options.runs.execute(execution)
      return ending.type === 'asked' ? this.#newLive(runId).ask(execution, ending) : ending
    }
    try {
      const opened = await this.open({ tool, order })
      switch (opened.type) {
        case 'new': {
          const { live } = opened
          const { signal } = live
          live.begin(() => live.run({ ...execution, sink: { ...sink, signal } }))
          return await live.join(sink.signal)
        }
        case 'queued':
        case 'earlier':
          return await this.repeat(opened.stored, execution)
        case 'result':
        case 'input':
          return opened
      }
    } catch (error) {
      const text =
        resume === undefined
          ? 'It cannot be known now whether this call was made before. Call again in a moment.'
          : 'The answer cannot be stored now. Send it again in a moment.'
      return failedOutcome(error, text, parseClaim(resume?.state)?.runId ?? runId)
    }
  }

  /**
   * Finds the call that a request repeats, takes the answers that it has, or stores a new call if it needs a record.
   *
   * @throws RunFailure; ProtocolError -32602 for an idempotency key with other arguments; GatewayError `UNAVAILABLE`
   */
  async open(request: CallRequest): Promise<OpenedCall> {
    const { order, queuedFor } = request
    if (order.resume !== undefined) return this.#take(request)
    const { runId } = order
    const key = keyOf(request)
    if (key === undefined && queuedFor === undefined) {
      return { type: 'new', live: this.#newLive(runId) }
    }
    const entry = key === undefined ? undefined : await this.store.keyEntry(key)
    if (entry && entry.runId !== runId) {
      const found = await this.#earlier(entry, order)
      if (!this.#unbegun.has(unbegunIdOf(found.stored.call))) return found
      return this.#whileAlive(request, async () => {
        // Until now, another process could end the call: no process seemed to have it.
        const latest = await this.#earlier(entry, order)
        const { stored } = latest
        if (!this.#takeUnbegun(stored.call)) return latest
        return { type: 'new', live: this.#newLive(entry.runId, stored) }
      })
    }
    return this.#whileAlive(request, async () => {
      const call = this.#newCall(request, key)
      const own = { args: call.args, runId }
      const stored = await this.store.create(call)
      const first = key === undefined ? own : await this.#claimKey(key, own, call)
      if (first.runId === runId) return this.#begun(request, { runId, stored })
      if (stored) await this.store.delete(stored)
      return this.#earlier(first, order)
    })
  }

  /** Returns the outcome of an earlier call, when it has one. Executes nothing. @throws RunFailure; ProtocolError of the call */
  async repeat(found: StoredCall, { order, sink, tool }: Execution): Promise<ToolOutcome> {
    const { signal } = sink
    const live = this.parts.live.get(found.call.runId)
    let outcome: ToolOutcome
    if (live?.outcome) outcome = await live.join(signal)
    else {
      const look = (latest: StoredCall): Promise<StoredCall> => this.current(latest)
      const ms = maxRunMsOf(tool, this.#options)
      await this.store.start().catch(() => {}) // then changes are noticed later
      const call = (await this.store.settled(found, { look, ms, signal }))?.call
      if (!call) throw busy(BUSY)
      if (signal.aborted && call.state.status === 'running') {
        throw new RunFailure('cancelled', 'The call was cancelled.')
      }
      outcome = outcomeOf(call, { order, tool })
    }
    return order.resume === undefined ? toReplayed(outcome) : outcome
  }

  /**
   * Makes a call in flight, or one that has asked, a task.
   *
   * @returns `undefined` if it has ended
   * @throws GatewayError `UNAVAILABLE`
   */
  keep(found: StoredCall, kept: KeptCall): Promise<StoredCall | undefined> {
    const { runId } = found.call
    const live = this.parts.live.get(runId)
    return live?.keep(kept) ?? this.store.apply(found, keptEvent(runId, kept, this.store))
  }

  /** Queues a call. One that cannot be queued now, or was lost, is queued again by `current()`. */
  async submit({ call }: StoredCall): Promise<void> {
    const { engine, onError } = this.#options
    try {
      await engine.submit(queueIdOf(call))
    } catch (cause) {
      onError(new Error('A task cannot be queued now', { cause }))
    }
  }

  /**
   * Deletes the record of a call without a key whose write failed, when the store is back: it may have been written, and
   * then some process would execute the call. For a key, `CallStore` finds out that it names no call.
   */
  withdraw({ order: { runId }, tool }: CallRequest): void {
    const { clock } = this.#options
    // Those that came first are the ones that may have been written.
    if (this.#withdrawn.size >= MAX_WITHDRAWN) return
    const isAsked = this.#withdrawn.size > 0
    this.#withdrawn.add(runId)
    if (isAsked) return // one request tells for all calls that the store is back
    const ms = this.store.expiryOf('running', true, tool) - clock.now()
    void this.store.whenBack(ms, () => this.#deleteWithdrawn()).catch(() => this.#withdrawn.clear())
  }

  async #deleteWithdrawn(): Promise<void> {
    const { lease } = this.#options
    const isUnchanged = ({ attempt, key, state }: CallRecord): boolean =>
      key === undefined &&
      attempt <= 1 &&
      state.status === 'running' &&
      ['', lease.id].includes(state.process)
    for (const runId of this.#withdrawn) {
      const found = await this.store.read(runId)
      if (found && isUnchanged(found.call)) await this.store.delete(found)
      this.#withdrawn.delete(runId)
    }
  }

  /** Returns a queued call that this process begins without a claim, once. */
  takeOwn(runId: string): OwnCall | undefined {
    const own = this.#own.get(runId)
    this.#own.delete(runId)
    return own
  }

  /** Returns whether a process executes a call that runs, or will do so soon. @throws GatewayError `UNAVAILABLE` */
  async isExecuted({ runId, state, updatedAt }: CallRecord): Promise<boolean> {
    const { clock, lease } = this.#options
    // The process that stored a queued call may have died before it queued it.
    if (state.status !== 'running' || state.process === '') return false
    if (state.process !== lease.id) return lease.isAlive(state.process)
    return this.parts.live.has(runId) || clock.now() - updatedAt < BEGIN_MS
  }

  /**
   * Returns a call as it is now. If its process died, it goes back to the engine, or ends: `outlivesProcess()` decides. A
   * task whose questions were not answered in time ends too.
   *
   * @throws GatewayError `UNAVAILABLE`
   */
  async current(found: StoredCall): Promise<StoredCall> {
    const { clock, resultTtlMs, runs } = this.#options
    const { call } = found
    const { agentId, asked, attempt, expiresAt, state, task } = call
    if (state.status === 'running') {
      if (await this.isExecuted(call)) return found
      if (outlivesProcess(call)) {
        await this.submit(found) // has no effect for a call that waits in the queue
        return { ...found, call: { ...call, state: { ...state, process: '' } } }
      }
      const until = this.store.expiryOf('ended', task !== undefined)
      const died = { type: 'ended', attempt, end: DIED, expiresAt: until } as const
      return (await this.store.apply(found, died)) ?? found
    }
    const isOpen = state.status === 'asking' && task
    if (!isOpen || clock.now() < expiresAt - resultTtlMs) return found
    const ended = await this.store.apply(found, { type: 'unanswered' })
    runs.forgetState(agentId, asked?.state)
    return ended ?? found
  }

  /**
   * Stores the answers to the questions of a call.
   *
   * @returns the call after them, with how they were read; `undefined` if another process changed it in the meantime
   * @throws GatewayError `UNAVAILABLE`
   */
  async answer(
    found: StoredCall,
    { isPlain, order, responses, task, tool }: GivenAnswers,
  ): Promise<{ readonly stored: StoredCall; readonly reading: AnswersReading } | undefined> {
    const { call } = found
    const { agentId, asked, round } = call
    if (!asked) return undefined
    if (asked.questions.some(({ schema }) => schema)) await whenSchemasChecked()
    const reading = readAnswers(asked, responses, isPlain)
    const { clock, lease, runs } = this.#options
    const isTask = task !== undefined
    const answered = { round, hash: hashOf(responses), id: randomHex(8) }
    const next = nextCall(
      call,
      {
        type: 'answered',
        answered,
        reading,
        process: isTask ? '' : lease.id,
        task,
        order: isTask ? order : undefined,
        isDurable: isTask,
        expiresAt: (status) => this.store.expiryOf(status, isTask, tool),
      },
      clock.now(),
    )
    if (isTask) this.credentials.keep(order, next.expiresAt)
    const stored = await this.store.replace(found, next).catch((error: unknown) => {
      if (!isTask) this.#unbegun.set(answered.id, true)
      throw error
    })
    if (stored && next.state.status === 'ended') runs.forgetState(agentId, asked.state)
    return stored && { stored, reading }
  }

  /** Ends a call as cancelled, unless it has ended, and stops its execution, wherever it is. @throws GatewayError `UNAVAILABLE` */
  async cancel(found: StoredCall): Promise<void> {
    const { engine, runs } = this.#options
    const { call } = found
    const { agentId, asked, isDurable, runId, state } = call
    await this.store.apply(found, { type: 'cancelled' })
    const live = this.parts.live.get(runId)
    live?.stop()
    // A process that misses this learns of the end when it stores its own.
    await engine.cancel(queueIdOf(call)).catch(() => {})
    if (live) return
    if (state.status === 'running' && (state.remote !== undefined || isDurable)) {
      void this.#forgetLeft(call, state.remote).catch(() => {}) // the run goes on, and its result is dropped
    }
    if (state.status !== 'asking') return
    runs.forgetState(agentId, asked?.state)
    // The agent keeps a thread for the answer.
    if (isDurable) runs.forgetRun(call)
  }

  /**
   * Stops a run at the server of its agent, which this process may have to find first, and deletes the thread of a run
   * whose process died.
   */
  async #forgetLeft(call: CallRecord, remote: unknown): Promise<void> {
    const { agents, clock, runs } = this.#options
    // A process that has died looks alive for some time. If it lives, it stops the run itself.
    if (await this.isExecuted(call)) await sleep(clock, DEAD_MS)
    if (await this.isExecuted(call)) return
    const until = clock.now() + AGENT_MS
    const isHere = (): boolean => agents.sourceOf(call.agentId) !== undefined
    while (!isHere() && clock.now() < until && !this.store.isEnding) await sleep(clock, RETRY_MS)
    runs.forgetRun(call, remote)
  }

  /** @throws GatewayError `UNAVAILABLE` */
  async #claimKey(
    key: string,
    own: KeyEntry,
    { expiresAt, secret, task }: CallRecord,
  ): Promise<KeyEntry> {
    try {
      return await this.store.claimKey(key, own, expiresAt)
    } catch (error) {
      if (task === undefined) this.#unbegun.set(secret, true)
      throw error
    }
  }

  async #earlier(
    entry: KeyEntry,
    order: RunOrder,
  ): Promise<Extract<OpenedCall, { type: 'earlier' }>> {
    if (entry.args !== hashOf(order.arguments ?? {})) throw conflict()
    const stored = await this.store.read(entry.runId)
    if (!stored) throw new RunFailure('expired', EXPIRED)
    return { type: 'earlier', stored }
  }

  #newLive(runId: string, stored?: StoredCall): LiveCall {
    return new LiveCall(this.parts, { runId, stored })
  }

  #newCall({ order, queuedFor, tool }: CallRequest, key: string | undefined): CallRecord {
    const { clock, lease } = this.#options
    const isTask = queuedFor !== undefined
    const expiresAt = this.store.expiryOf('running', isTask, tool)
    const facts = {
      ...newCallOf(tool, order),
      key,
      expiresAt,
      ...(isTask && {
        order,
        task: { owner: queuedFor, account: accountHashOf(order), began: 0 },
        isDurable: true,
      }),
    }
    return newCall(facts, isTask && this.isEngineShared ? '' : lease.id, clock.now())
  }

  /** Returns the call of a request, after its record was stored. A task whose record is missing runs as a plain call. */
  #begun(
    { order, queuedFor }: CallRequest,
    { runId, stored }: { readonly runId: string; readonly stored: StoredCall | undefined },
  ): OpenedCall {
    // A plain call finds a task if the request gave up to store it, and did not learn that it was stored.
    const isTask = queuedFor !== undefined || stored?.call.task !== undefined
    if (!stored || !isTask) return { type: 'new', live: this.#newLive(runId, stored) }
    const { attempt, expiresAt, state } = stored.call
    this.credentials.keep(order, expiresAt) // a record that was read has none
    if (queuedFor === undefined) return { type: 'earlier', stored }
    // One that was stored by an earlier attempt may have got to another process since.
    const process = state.status === 'running' ? state.process : ''
    const isUntouched = attempt === 1 && process === this.#options.lease.id
    if (isUntouched) this.#own.set(runId, { stored, releaseLease: undefined })
    return { type: 'queued', stored }
  }

  /** Other processes see that this one is alive before they can see the call that begins here. */
  async #whileAlive(
    { queuedFor }: CallRequest,
    open: () => Promise<OpenedCall>,
  ): Promise<OpenedCall> {
    const isHere = queuedFor === undefined || !this.isEngineShared
    const release = isHere ? await this.#options.lease.hold() : undefined
    let opened: OpenedCall | undefined
    try {
      opened = await open()
      return opened
    } finally {
      const own = opened?.type === 'queued' && this.#own.get(opened.stored.call.runId)
      const holder = opened?.type === 'new' ? opened.live : own
      if (holder) holder.releaseLease = release
      else release?.()
    }
  }

  /** Takes the answers of a call, so that this process, or the engine, continues the run. @throws RunFailure */
  async #take(request: CallRequest): Promise<OpenedCall> {
    const claim = parseClaim(request.order.resume?.state)
    if (claim === undefined) {
      const text = 'This names no run that can be continued: call again without `resume`.'
      throw new RunFailure('invalid_arguments', text)
    }
    return this.#whileAlive(request, async () => {
      for (let conflicts = 0; conflicts < MAX_CONFLICTS; conflicts++) {
        const taken = await this.#tryTake(request, claim)
        if (taken) return taken
      }
      throw busy('Another process continues this run. Call again in a moment.')
    })
  }

  /** @returns `undefined` if another process changed the call in the meantime. @throws RunFailure */
  async #tryTake(request: CallRequest, claim: ResumeClaim): Promise<OpenedCall | undefined> {
    const { order, queuedFor, tool } = request
    const responses = order.resume?.responses ?? {}
    const found = await this.store.read(claim.runId)
    // A run of another caller gets the same answer as an unknown run.
    if (!found || !isOwn(found.call, request, claim)) {
      const text = 'No such run waits for an answer. It may have waited too long.'
      throw new RunFailure('expired', text)
    }
    const { call } = found
    const { runId } = call
    if (!isSameCall(call, order, claim)) {
      const text = 'A run is continued with the same arguments with which it began.'
      throw new RunFailure('invalid_arguments', text)
    }
    if (call.state.status !== 'asking' || claim.round !== call.round) {
      if (call.answered?.hash === hashOf(responses)) {
        return this.#takeUnbegun(call)
          ? { type: 'new', live: this.#newLive(runId, found) }
          : { type: 'earlier', stored: found }
      }
      const text = 'This question was answered before, with another answer.'
      throw new RunFailure('already_answered', text)
    }
    if (call.asked?.beginsAnew === true && order.input === undefined) {
      throw new RunFailure('invalid_arguments', 'This run begins again: call with all arguments.')
    }
    const isPlain = claim.type === 'argument'
    // The call with the answers may become another task than the one that asked.
    const account = accountHashOf(order)
    const task =
      queuedFor === undefined ? undefined : { owner: queuedFor, account, began: call.round }
    const continued = { ...order, runId, resume: undefined }
    const given = { isPlain, order: continued, responses, task, tool }
    const answered = await this.answer(found, given)
    if (!answered) return undefined
    const { reading, stored } = answered
    const { state } = stored.call
    if (state.status === 'running') {
      return task ? { type: 'queued', stored } : { type: 'new', live: this.#newLive(runId, stored) }
    }
    return state.status === 'asking' && reading.type === 'errors'
      ? questionsOutcome(stored.call, { client: order.client, tool }, reading)
      : outcomeOf(stored.call, { order, tool })
  }

  /** Returns whether a call is stored although this process did not learn of it, and begins here now. True once. */
  #takeUnbegun(call: CallRecord): boolean {
    return call.state.status === 'running' && this.#unbegun.delete(unbegunIdOf(call))
  }

  /**
   * Deletes a question whose time is over, and continues or ends a call whose process died.
   *
   * @returns `false` if its agent is not there
   */
  async #cleanUp(found: StoredCall): Promise<boolean> {
    const { agents, clock, runs } = this.#options
    const { agentId, asked, expiresAt } = found.call
    if (agents.sourceOf(agentId) === undefined) return false
    if (expiresAt > clock.now()) await this.current(found)
    else if (await this.store.delete(found)) runs.forgetState(agentId, asked?.state)
    return true
  }
}

/** Names a call and its round for the engine, which may still finish an earlier round. */
function queueIdOf({ round, runId }: CallRecord): string {
  return `${runId}/${round}`
}

/** Names a call that may have been stored, and the answers to it. */
function unbegunIdOf({ answered, secret }: CallRecord): string {
  return answered?.id ?? secret
}

function conflict(): ProtocolError {
  const text =
    'The idempotency key was used before, for a call of this tool with other arguments. Nothing was executed: use another key for another call.'
  const data = { reason: 'idempotency_conflict' }
  return new ProtocolError(ProtocolErrorCode.InvalidParams, text, data)
}

/** @returns `undefined` for a call without a key, and for a key without effect */
function keyOf({ tool, order }: CallRequest): string | undefined {
  const { idempotencyKey, principal, scope = null } = order
  if (idempotencyKey === undefined || !isKeyEffective(order, idempotencyKey)) return undefined
  return hashOf([principal.id, scope, tool.agent.id, tool.skill.id, idempotencyKey])
}

/** Whether a call belongs to the caller, and is the one that the claim names. */
function isOwn(call: CallRecord, { tool, order }: CallRequest, claim: ResumeClaim): boolean {
  return (
    call.principal === order.principal.id &&
    call.agentId === tool.agent.id &&
    call.skillId === tool.skill.id &&
    (claim.type === 'argument' ? claim.key === call.secret : claim.tool === call.tool)
  )
}

/** Whether a call has the arguments with which the run began. A `resume` argument may come without the others. */
function isSameCall(call: CallRecord, order: RunOrder, claim: ResumeClaim): boolean {
  if (claim.type === 'state' && claim.args !== call.args) return false
  if (claim.type === 'argument' && order.arguments === undefined) return true
  return hashOf(order.arguments ?? {}) === call.args
}
