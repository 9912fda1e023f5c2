import { ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/server'

import { RunFailure } from '../agents/agent.ts'
import { whenSchemasChecked } from '../agents/schemas.ts'
import { CallQueue, type CallQueueOptions } from './call-queue.ts'
import { isDeath, newCall, nextCall } from './call-record.ts'
import type { CallRecord, TaskFacts } from './call-record.ts'
import { CallStore, type KeyEntry, type StoredCall } from './call-store.ts'
import { Executions, newCallOf, type ExecutionsOptions } from './executions.ts'
import { readAnswers, type AnswersReading } from './forms.ts'
import { LiveCall } from './live-call.ts'
import { accountHashOf } from '../internal/principal.ts'
import { hashOf } from '../internal/text.ts'
import {
  busy,
  IDEMPOTENCY,
  isKeyEffective,
  type Execution,
  type RunOrder,
  type ToolOutcome,
} from './order.ts'
import { questionsOutcome } from './questions.ts'
import { parseClaim, type ResumeClaim } from './request-state.ts'
import { failedOutcome } from './result.ts'

export interface CallsOptions
  extends ExecutionsOptions, Pick<CallQueueOptions, 'engine' | 'prepare'> {}

/** A call of a tool, before it is executed. */
export interface CallRequest extends Pick<Execution, 'order' | 'tool'> {
  /** Hash of the caller of a task for the engine. `undefined`: a plain call, which begins in this process. */
  readonly queuedFor?: string | undefined
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
const BUSY = 'The same call runs in another process. Call again in a moment.'
const WORKS =
  'The first call with this idempotency key still works, or waits for an answer to its question. Call again later.'
const EXPIRED =
  'This call was made before, and its result is not kept here any more. It is not made again. To make it again all the same, use another idempotency key.'

/**
 * The calls of a gateway. A call is stored if it outlives its request: it has an idempotency key, has asked, or is a task.
 * Any process repeats, answers and continues it. For all other calls, nothing is written.
 */
export class Calls {
  readonly store: CallStore
  readonly executions: Executions
  readonly queue: CallQueue
  readonly #options: CallsOptions

  constructor(options: CallsOptions) {
    this.#options = options
    this.store = new CallStore({ ...options, onLeft: (found) => this.#cleanUp(found) })
    this.executions = new Executions(this.store, options)
    this.queue = new CallQueue(this.store, this.executions, options)
  }

  /** The process stops: ends all waits for calls of other processes. The runs are stopped by `Runs`. */
  stop(): void {
    this.executions.close()
    this.store.endWaits()
  }

  /** Resolves when the ends of all executions of this process are stored. */
  async close(): Promise<void> {
    await this.queue.stopWorking()
    this.queue.credentials.close()
    await this.executions.ended()
    await this.store.stop()
  }

  /** Makes a plain call, repeats an earlier one, or continues one with answers. */
  async call(execution: Execution): Promise<ToolOutcome> {
    const { order, sink, tool } = execution
    const { live } = sink
    if (live) return live.over ?? this.executions.run(execution, live)
    const { idempotencyKey, resume, runId } = order
    if (resume === undefined && idempotencyKey === undefined) {
      return this.executions.run(execution, new LiveCall({ runId }))
    }
    try {
      const opened = await this.open({ tool, order })
      if (!(opened instanceof LiveCall)) return await this.repeat(opened, execution)
      if (opened.over) return opened.over
      const { signal } = opened
      this.executions.begin(opened, () =>
        this.executions.run({ ...execution, sink: { ...sink, signal } }, opened),
      )
      return await opened.join(sink.signal)
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
   * @returns the stored call that the request repeats; or an execution that has not begun, and is queued if it is a task
   * @throws RunFailure; ProtocolError -32602 for an idempotency key with other arguments; GatewayError `UNAVAILABLE`
   */
  async open(request: CallRequest): Promise<LiveCall | StoredCall> {
    const { order, queuedFor } = request
    if (order.resume !== undefined) return this.#take(request)
    const { runId } = order
    const key = keyOf(request)
    if (key === undefined && queuedFor === undefined) return new LiveCall({ runId })
    const own = { args: hashOf(order.arguments ?? {}), runId }
    const entry = key === undefined ? undefined : await this.store.keyEntry(key)
    if (entry && entry.runId !== runId) return this.#earlier(entry, own)
    const { lease } = this.#options
    // Other processes see that this one is alive before they can see the call.
    const release = queuedFor === undefined ? await lease.hold() : undefined
    let live: LiveCall | undefined
    try {
      const call = this.#newCall(request, key)
      const stored = await this.store.create(call)
      const first = key === undefined ? own : await this.store.claimKey(key, own, call.expiresAt)
      if (first.runId === runId) {
        if (queuedFor !== undefined) this.queue.credentials.keep(order, call.expiresAt)
        live = new LiveCall({ runId, stored })
        live.releaseLease = release
        return live
      }
      if (stored) await this.store.delete(stored)
      return await this.#earlier(first, own)
    } finally {
      if (!live) release?.()
    }
  }

  /** Returns the outcome of an earlier call, when it has one. Executes nothing. @throws RunFailure; ProtocolError of the call */
  async repeat(found: StoredCall, { order, sink, tool }: Execution): Promise<ToolOutcome> {
    const { signal } = sink
    const live = this.executions.find(found.call.runId)
    let outcome: ToolOutcome
    if (live?.outcome) outcome = await live.join(signal)
    else {
      const look = (latest: StoredCall): Promise<StoredCall> => this.current(latest)
      const ms = this.#options.maxRunMs(tool)
      await this.store.start().catch(() => {}) // then changes are noticed later
      const call = (await this.store.settled(found, { look, ms, signal }))?.call
      if (!call) throw busy(BUSY)
      if (signal.aborted && call.state.status === 'running') {
        throw new RunFailure('cancelled', 'The call was cancelled.')
      }
      outcome = this.outcomeOf(call, { order, tool })
    }
    return order.resume === undefined ? toReplayed(outcome) : outcome
  }

  /** @throws RunFailure `busy`, `outcome_unknown`, `expired`, `cancelled`; ProtocolError of the call */
  outcomeOf(call: CallRecord, { order, tool }: Pick<Execution, 'order' | 'tool'>): ToolOutcome {
    const { state, task } = call
    if (state.status === 'running') throw busy(task ? WORKS : BUSY)
    if (state.status === 'asking') {
      if (task) throw busy(WORKS)
      return questionsOutcome(call, { client: order.client, tool })
    }
    const { end } = state
    switch (end.type) {
      case 'result':
        return { type: 'result', result: end.result }
      case 'cancelled':
        throw new RunFailure('cancelled', 'This call was cancelled.')
      case 'unkept':
        throw new RunFailure('expired', EXPIRED)
      case 'error': {
        const { code, data, message } = end.error
        if (isDeath(end)) throw new RunFailure('outcome_unknown', message)
        throw new ProtocolError(code, message, data)
      }
    }
  }

  /**
   * Returns a call as it is now. If its process died, a call that was queued before it began, or that its agent continues
   * at a server, goes back to the engine; any other one ends with `outcome_unknown`. A task whose questions were not
   * answered in time ends too.
   *
   * @throws GatewayError `UNAVAILABLE`
   */
  async current(found: StoredCall): Promise<StoredCall> {
    const { clock, taskTtlMs } = this.#options
    const { call } = found
    const { asked, expiresAt, state, task } = call
    if (state.status === 'running') {
      return (await this.queue.isExecuted(call)) ? found : this.queue.takeOver(found)
    }
    const isOpen = state.status === 'asking' && task
    if (!isOpen || clock.now() < expiresAt - taskTtlMs) return found
    const ended = await this.store.apply(found, { type: 'unanswered' })
    this.executions.forget(call, asked?.state)
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
    const { asked, round } = call
    if (!asked) return undefined
    if (asked.questions.some(({ schema }) => schema)) await whenSchemasChecked()
    const reading = readAnswers(asked, responses, isPlain)
    const { clock, lease } = this.#options
    const isTask = task !== undefined
    const next = nextCall(
      call,
      {
        type: 'answered',
        answered: { round, hash: hashOf(responses) },
        reading,
        process: isTask ? '' : lease.id,
        task,
        order: isTask ? order : undefined,
        isDurable: isTask,
        expiresAt: (status) => this.executions.expiryOf(status, isTask, tool),
      },
      clock.now(),
    )
    if (isTask) this.queue.credentials.keep(order, next.expiresAt)
    const stored = await this.store.replace(found, next)
    if (stored && next.state.status === 'ended') this.executions.forget(call, asked.state)
    return stored && { stored, reading }
  }

  /** Ends a call as cancelled, unless it has ended. @throws GatewayError `UNAVAILABLE` */
  async cancel(found: StoredCall): Promise<void> {
    await this.store.apply(found, { type: 'cancelled' })
    await this.queue.stop(found)
  }

  async #earlier(entry: KeyEntry, own: KeyEntry): Promise<StoredCall> {
    if (entry.args !== own.args) throw conflict()
    const found = await this.store.read(entry.runId)
    if (!found) throw new RunFailure('expired', EXPIRED)
    return found
  }

  #newCall({ order, queuedFor, tool }: CallRequest, key: string | undefined): CallRecord {
    const { clock, lease } = this.#options
    const isTask = queuedFor !== undefined
    const expiresAt = this.executions.expiryOf('running', isTask, tool)
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
    return newCall(facts, isTask ? '' : lease.id, clock.now())
  }

  /** Takes the answers of a call, so that this process, or the engine, continues the run. @throws RunFailure */
  async #take(request: CallRequest): Promise<LiveCall | StoredCall> {
    const { resume } = request.order
    const claim = parseClaim(resume?.state)
    if (claim === undefined) {
      const text = 'This names no run that can be continued: call again without `resume`.'
      throw new RunFailure('invalid_arguments', text)
    }
    const { queuedFor } = request
    const release = queuedFor === undefined ? await this.#options.lease.hold() : undefined
    let taken: LiveCall | StoredCall | undefined
    try {
      for (let conflicts = 0; conflicts < MAX_CONFLICTS && !taken; conflicts++) {
        taken = await this.#tryTake(request, claim)
      }
      if (!taken) throw busy('Another process continues this run. Call again in a moment.')
      if (taken instanceof LiveCall && !taken.over) taken.releaseLease = release
      return taken
    } finally {
      if (!(taken instanceof LiveCall) || taken.over) release?.()
    }
  }

  /** @returns `undefined` if another process changed the call in the meantime. @throws RunFailure */
  async #tryTake(
    request: CallRequest,
    claim: ResumeClaim,
  ): Promise<LiveCall | StoredCall | undefined> {
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
      if (call.answered?.hash === hashOf(responses)) return found
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
    const { reading } = answered
    const { call: next } = answered.stored
    if (next.state.status === 'running') return new LiveCall({ runId, stored: answered.stored })
    const over =
      next.state.status === 'asking' && reading.type === 'errors'
        ? questionsOutcome(next, { client: order.client, tool }, reading)
        : this.outcomeOf(next, { order, tool })
    return new LiveCall({ runId, over })
  }

  /**
   * Deletes a question whose time is over, and continues or ends a call whose process died.
   *
   * @returns `false` if its agent is not there
   */
  async #cleanUp(found: StoredCall): Promise<boolean> {
    const { agents, clock } = this.#options
    const { call } = found
    const { agentId, asked, expiresAt } = call
    if (agents.sourceOf(agentId) === undefined) return false
    if (expiresAt > clock.now()) await this.current(found)
    else if (await this.store.delete(found)) this.executions.forget(call, asked?.state)
    return true
  }
}

/** Marks a result that does not come from an execution for this request. */
export function toReplayed(outcome: ToolOutcome): ToolOutcome {
  if (outcome.type === 'input') return outcome
  const { _meta: meta } = outcome.result
  const result = { ...outcome.result, _meta: { ...meta, [IDEMPOTENCY]: { replayed: true } } }
  return { type: 'result', result }
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
