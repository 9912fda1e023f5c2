import {
  ProtocolError,
  ProtocolErrorCode,
  type CallToolResult,
  type ContentBlock,
} from '@modelcontextprotocol/server'

import { isRecord } from '@x/internal'
import { z } from 'zod'
import { RunFailure, type Question } from '../agents/agent.ts'
import type { EarlierFiles } from '../files/result-files.ts'
import type { Answers, AnswersReading } from './forms.ts'
import { accountHashOf } from '../internal/principal.ts'
import { isRunId, type RunOrder } from './order.ts'
import { failureResult } from './result.ts'

type Values = Readonly<Record<string, unknown>>

/** Changes when a record of before could be misread. */
const FORMAT = 1

/**
 * A call that outlives its request, because it has an idempotency key, has asked, or is a task. JSON: any process can
 * continue it, answer for it and end it. Times are milliseconds since 1970.
 *
 * If its process dies, the status decides:
 * - `running`: see `outlivesProcess()`. The process that reads the call next queues it again, or ends it
 * - `asking`: nothing changes, because no process executes the call. Any process takes the answers
 * - `ended`: nothing changes
 */
export interface CallRecord {
  /** Records of another format are unknown. */
  readonly format: typeof FORMAT
  readonly runId: string
  /** Part of the id of the task and of the `resume` argument, and of nothing else: ids of runs are in logs. */
  readonly secret: string
  readonly agentId: string
  readonly skillId: string
  /** Name of the tool. */
  readonly tool: string
  /** Id of the principal. */
  readonly principal: string
  /** Hash of the arguments. */
  readonly args: string
  /** As `RunOrder.conversation`. */
  readonly conversation?: string | undefined
  /** Names the call by its idempotency key, if it has one. */
  readonly key?: string | undefined
  /** Number of the execution, from 1; 0 before the first one. Events of earlier executions change nothing. */
  readonly attempt: number
  /** It was queued before it began, so that another process can continue it. */
  readonly isDurable: boolean
  /** Number of the last round of questions. A round of a task is part of the keys of its questions. */
  readonly round: number
  /** Number of times that the client was asked. It counts once more when no answer fits. */
  readonly asks: number
  /** The last questions, with what continues the run. Kept after the death of a process, until the call expires. */
  readonly asked?: AskedQuestions | undefined
  /** The task that has ended with the last questions as its result. They are answered by another call. */
  readonly told?: ToldTask | undefined
  /** The last answers that were accepted: a repeat of them executes nothing. */
  readonly answered?: AcceptedAnswers | undefined
  /** Files of earlier rounds. */
  readonly files?: EarlierFiles | undefined
  /** Number of the last piece of progress. */
  readonly progress: number
  readonly task?: TaskFacts | undefined
  /** The call as data, for a task. */
  readonly order?: RunOrder | undefined
  readonly state: CallState
  readonly createdAt: number
  readonly updatedAt: number
  readonly expiresAt: number
}

type CallState =
  | {
      readonly status: 'running'
      /** Process that executes it. Empty: it is queued. */
      readonly process: string
      /** Number of processes that have executed it since the last answers, or since one was stopped. */
      readonly claims: number
      /** State of the run at the server of its agent, with which any process joins it. */
      readonly remote?: unknown
      /** The current step, for people. */
      readonly message?: string | undefined
    }
  | {
      readonly status: 'asking'
      /** Answers to some of the questions of a task, by the keys of the forms. Not checked. */
      readonly given: Values
    }
  | { readonly status: 'ended'; readonly end: CallEnd }

export type CallEnd =
  | { readonly type: 'result'; readonly result: CallToolResult }
  | { readonly type: 'error'; readonly error: CallError }
  | { readonly type: 'cancelled' }
  /** The result was too large to be stored. */
  | { readonly type: 'unkept' }

export interface CallError {
  readonly code: number
  readonly message: string
  readonly data?: unknown
}

interface AskedQuestions {
  readonly questions: readonly Question[]
  /** Answers that were accepted. */
  readonly answers: Answers
  /** State of the agent, with which it continues. */
  readonly state?: unknown
  /** The agent has no state to continue with: with the answers, the run begins again. */
  readonly beginsAnew: boolean
}

interface AcceptedAnswers {
  readonly round: number
  readonly hash: string
  /** Names the attempt to store them. */
  readonly id: string
}

export interface TaskFacts {
  /** Hash of the caller that may use the task. */
  readonly owner: string
  /** Hash of the account whose limit counts the task. `undefined` in records of earlier versions: the owner counts it. */
  readonly account?: string | undefined
  /** Round in which the call became the task. It is part of the id of the task. */
  readonly began: number
}

interface ToldTask extends TaskFacts {
  readonly result: CallToolResult
}

/** Returns when a call expires that has this status from now on. */
type ExpiryOf = (status: CallState['status']) => number

/** A change of a call. Events of an execution have its number. */
export type CallEvent =
  /** A process begins to execute the call, or continues it after another one has died. */
  | { readonly type: 'claimed'; readonly process: string }
  /** The process stops, and leaves the call to another one. */
  | { readonly type: 'released'; readonly attempt: number }
  | { readonly type: 'progress'; readonly attempt: number; readonly message: string }
  /** Files of the run so far. A process that continues the call has them in its result. */
  | { readonly type: 'files'; readonly attempt: number; readonly files: EarlierFiles }
  /** The server of the agent has the run now, or will have it soon. */
  | { readonly type: 'remote'; readonly attempt: number; readonly remote: unknown }
  | ({
      readonly type: 'asked'
      readonly attempt: number
      readonly files: EarlierFiles | undefined
      readonly progress: number
      /** Result of a task whose client cannot show the questions. */
      readonly told: CallToolResult | undefined
      readonly expiresAt: ExpiryOf
    } & Omit<AskedQuestions, 'answers'>)
  /** Some answers to the questions of a task. */
  | { readonly type: 'given'; readonly responses: Values }
  | {
      readonly type: 'answered'
      readonly answered: AcceptedAnswers
      readonly reading: AnswersReading
      /** Process that continues the run. Empty: it is queued. */
      readonly process: string
      /** Its task, and the call as data. `undefined`: the answers came with a plain call. */
      readonly task: TaskFacts | undefined
      readonly order: RunOrder | undefined
      readonly isDurable: boolean
      readonly expiresAt: ExpiryOf
    }
  /** The time for answers is over. */
  | { readonly type: 'unanswered' }
  /** The agent did not get the answers, so they can be given again. */
  | { readonly type: 'unstarted'; readonly attempt: number; readonly expiresAt: number }
  /** The call becomes a task. */
  | {
      readonly type: 'kept'
      readonly owner: string
      readonly order: RunOrder
      readonly expiresAt: ExpiryOf
    }
  /** The request got the outcome: the call is a task no longer. */
  | { readonly type: 'returned' }
  | {
      readonly type: 'ended'
      readonly attempt: number
      readonly end: CallEnd
      readonly expiresAt: number
    }
  | { readonly type: 'cancelled' }

/** Most times that the client of one call is asked. Clients have limits too: those of the SDKs stop after 10. */
const MAX_ASKS = 8
const ASKED_TOO_OFTEN = `The agent asked more than ${MAX_ASKS} times in one call, so it was stopped. Call again with the answers in the arguments.`
const NOT_ANSWERED = `The client was asked ${MAX_ASKS} times, and its last answers do not fit the questions, so the agent was stopped. Call again, and answer as the questions say.`
const UNANSWERED = 'Nobody answered the question of the agent in time, so it stopped.'

/** How a call ends whose process died, if no other process can continue it. */
export const DIED: CallEnd = {
  type: 'error',
  error: {
    code: ProtocolErrorCode.InternalError,
    message:
      'The process that executed this call died, or could not write how the call ended. The call may have been executed in part, so it is not repeated. Check what it did before you call again, with another idempotency key if it had one.',
    data: { reason: 'outcome_unknown' },
  },
}

export type NewCall = Pick<
  CallRecord,
  | 'runId'
  | 'secret'
  | 'agentId'
  | 'skillId'
  | 'tool'
  | 'principal'
  | 'args'
  | 'conversation'
  | 'key'
  | 'task'
  | 'order'
  | 'isDurable'
  | 'expiresAt'
>

/** @param process that executes the call. Empty: it is queued */
export function newCall(call: NewCall, process: string, now: number): CallRecord {
  const attempt = process === '' ? 0 : 1
  const state = { status: 'running', process, claims: attempt } as const
  const none = { round: 0, asks: 0, progress: 0 }
  return { format: FORMAT, ...call, ...none, attempt, state, createdAt: now, updatedAt: now }
}

/**
 * Returns the call after an event; the same object if the event changes nothing, because it comes too late or from an
 * earlier execution. The only place that changes a status.
 */
export function nextCall(call: CallRecord, event: CallEvent, now: number): CallRecord {
  const next = afterEvent(call, event)
  if (next === call) return call
  // A call is kept for as long as it was promised to be.
  const isPromised = next.task !== undefined || next.told !== undefined
  const expiresAt = isPromised ? Math.max(call.expiresAt, next.expiresAt) : next.expiresAt
  return { ...next, expiresAt, updatedAt: now }
}

function afterEvent(call: CallRecord, event: CallEvent): CallRecord {
  const { state } = call
  switch (event.type) {
    case 'kept':
      return withTask(call, event)
    case 'returned':
      return { ...call, task: undefined }
    case 'cancelled':
      return state.status === 'ended' ? call : ended(call, { type: 'cancelled' })
    case 'unanswered':
      return state.status === 'asking' ? ended(call, unanswered(call)) : call
    case 'given':
      return withGiven(call, event)
    case 'answered':
      return state.status === 'asking' ? withAnswers(call, event) : call
    case 'claimed': {
      if (state.status !== 'running') return call
      const claimed = { ...state, process: event.process, claims: state.claims + 1 }
      return { ...call, attempt: call.attempt + 1, state: claimed }
    }
    case 'progress':
    case 'files':
    case 'remote':
    case 'released':
    case 'asked':
    case 'unstarted':
    case 'ended':
      return event.attempt === call.attempt ? afterExecution(call, event) : call
  }
}

type ExecutionEvent = Extract<CallEvent, { readonly attempt: number }>

function afterExecution(call: CallRecord, event: ExecutionEvent): CallRecord {
  const { asked, state } = call
  if (event.type === 'ended' && canEndLate(call)) {
    return { ...ended(call, event.end), expiresAt: event.expiresAt }
  }
  if (state.status !== 'running') return call
  switch (event.type) {
    case 'progress':
      return { ...call, state: { ...state, message: event.message } }
    case 'files':
      return { ...call, files: event.files }
    case 'remote':
      return { ...call, state: { ...state, remote: event.remote } }
    case 'released': // the call does not kill its processes; from its second claim on, it is continued
      return { ...call, state: { ...state, process: '', claims: Math.min(state.claims, 1) } }
    case 'asked':
      return withQuestions(call, event)
    case 'unstarted': {
      if (!asked) return call
      const again = { status: 'asking', given: {} } as const
      return { ...call, answered: undefined, state: again, expiresAt: event.expiresAt }
    }
    case 'ended':
      return { ...ended(call, event.end), expiresAt: event.expiresAt }
  }
}

function withTask(call: CallRecord, event: Extract<CallEvent, { type: 'kept' }>): CallRecord {
  if (call.task || call.state.status === 'ended') return call
  const { order, owner } = event
  // The time of an open question is longer or shorter than that of a run.
  const expiresAt = event.expiresAt(call.state.status)
  const task = { owner, account: accountHashOf(order), began: call.round }
  return { ...call, task, order, expiresAt }
}

function withQuestions(
  call: CallRecord,
  { files, progress, expiresAt, ...event }: Extract<CallEvent, { type: 'asked' }>,
): CallRecord {
  const { beginsAnew, questions, state, told: result } = event
  const asks = call.asks + 1
  const next = { ...call, files, progress }
  if (asks > MAX_ASKS) {
    const end = askedTooOften(next, ASKED_TOO_OFTEN)
    return { ...ended(next, end), expiresAt: expiresAt('ended') }
  }
  const { task } = call
  return {
    ...next,
    expiresAt: expiresAt('asking'),
    asks,
    round: call.round + 1,
    asked: { questions, answers: {}, state, beginsAnew },
    state: { status: 'asking', given: {} },
    ...(task && result && { task: undefined, told: { ...task, result } }),
  }
}

function withGiven(call: CallRecord, event: Extract<CallEvent, { type: 'given' }>): CallRecord {
  const { state } = call
  if (state.status !== 'asking') return call
  return { ...call, state: { ...state, given: { ...state.given, ...event.responses } } }
}

function withAnswers(
  call: CallRecord,
  event: Extract<CallEvent, { type: 'answered' }>,
): CallRecord {
  const { asked } = call
  const { answered, expiresAt, isDurable, order, process, reading, task } = event
  if (!asked) return call
  const over = (end: CallEnd): CallRecord => {
    return { ...ended({ ...call, answered }, end), expiresAt: expiresAt('ended') }
  }
  switch (reading.type) {
    case 'errors': {
      const { answers } = reading
      const isProgress = Object.keys(answers).length > Object.keys(asked.answers).length
      const asks = call.asks + (isProgress ? 0 : 1)
      if (asks > MAX_ASKS) return over(askedTooOften(call, NOT_ANSWERED))
      // A key of a task never names two questions.
      const round = call.task ? call.round + 1 : call.round
      const state = { status: 'asking', given: {} } as const
      const next = { ...call, asks, round, asked: { ...asked, answers }, state }
      return { ...next, expiresAt: expiresAt('asking') }
    }
    case 'refusal':
      return over(toEnd(refusedResult(call.runId, reading.action)))
    case 'timeout':
      return over(unanswered(call))
    case 'answers':
      return {
        ...call,
        answered,
        task,
        order,
        isDurable,
        attempt: call.attempt + (process === '' ? 0 : 1),
        asked: { ...asked, answers: reading.answers },
        state: { status: 'running', process, claims: process === '' ? 0 : 1 },
        expiresAt: expiresAt('running'),
      }
  }
}

/** Without the state of its agent: but a process that seems dead may be frozen, and still use it. */
function ended(call: CallRecord, end: CallEnd): CallRecord {
  const { asked, files: _, order: __, ...rest } = call
  return { ...rest, ...(asked && end === DIED && { asked }), state: { status: 'ended', end } }
}

/**
 * Returns whether a call that runs outlives its process: it was queued before it began, or any process can join its run
 * at the server of its agent. Then the engine gives it to another process. Any other call ends with `DIED`.
 */
export function outlivesProcess({ isDurable, order, state }: CallRecord): boolean {
  if (state.status !== 'running') return false
  const isQueued = state.process === ''
  return isQueued || isDurable || (state.remote !== undefined && order !== undefined)
}

/** Processes that may die within one call. Then the call is to blame. */
const MAX_CLAIMS = 5

/**
 * Returns whether the process that has claimed a call may execute it. If another process died in it, the agent has to
 * continue the run: from its last step, or at its server.
 *
 * @param canContinue the agent continues runs from their last step
 */
export function mayExecute({ state }: CallRecord, canContinue: boolean): boolean {
  if (state.status !== 'running' || state.claims > MAX_CLAIMS) return false
  return state.claims === 1 || canContinue || state.remote !== undefined
}

/** Returns whether an end says that the process of the call died. */
export function isDeath(end: CallEnd): boolean {
  const data = end.type === 'error' ? end.error.data : undefined
  return isRecord(data) && data['reason'] === 'outcome_unknown'
}

/**
 * Returns whether the process of a call was thought to be dead, and may still say how the call ended. A task keeps its first
 * end, because clients may have seen it.
 */
export function canEndLate({ state, task }: CallRecord): boolean {
  return state.status === 'ended' && isDeath(state.end) && task === undefined
}

export function toEnd(result: CallToolResult): CallEnd {
  return { type: 'result', result }
}

/** Unexpected errors show no detail to the client. */
export function toCallError(error: unknown): CallError {
  if (!(error instanceof ProtocolError)) {
    return { code: ProtocolErrorCode.InternalError, message: 'Internal error' }
  }
  const { code, data, message } = error
  return { code, message, data }
}

export function toErrorEnd(error: unknown): CallEnd {
  return { type: 'error', error: toCallError(error) }
}

function askedTooOften(call: Pick<CallRecord, 'files' | 'runId'>, why: string): CallEnd {
  return toEnd(withEarlierFiles(failed('too_many_questions', why, call), call.files?.blocks ?? []))
}

function unanswered(call: CallRecord): CallEnd {
  return toEnd(failed('expired', UNANSWERED, call))
}

function failed(
  reason: RunFailure['reason'],
  text: string,
  { runId }: Pick<CallRecord, 'runId'>,
): CallToolResult {
  return failureResult(new RunFailure(reason, text), runId)
}

function refusedResult(runId: string, action: 'decline' | 'cancel'): CallToolResult {
  const text = action === 'decline' ? 'declined to answer' : 'cancelled the question'
  return {
    content: [{ type: 'text', text: `The user ${text}, so the agent stopped.` }],
    _meta: { runId, reason: action },
  }
}

/** Adds the files of earlier rounds to a failure, after its text. Other results have them already. */
export function withEarlierFiles(
  result: CallToolResult,
  blocks: readonly ContentBlock[],
): CallToolResult {
  if (result.isError !== true || blocks.length === 0) return result
  const at = result.content[0]?.type === 'text' ? 1 : 0
  return { ...result, content: result.content.toSpliced(at, 0, ...blocks) }
}

const StoredCallRecord = z.custom<CallRecord>((value) => {
  return isRecord(value) && value['format'] === FORMAT && isRunId(value['runId'])
})

/** @returns `undefined` for a value of another version of this package */
export function parseCall(value: unknown): CallRecord | undefined {
  return StoredCallRecord.safeParse(value).data
}
