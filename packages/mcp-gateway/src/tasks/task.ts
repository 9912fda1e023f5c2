import {
  ProtocolError,
  ProtocolErrorCode,
  type CallToolResult,
  type InputRequest,
} from '@modelcontextprotocol/server'

import { isRecord } from '@x/internal'
import { z } from 'zod'
import { StoredOrder, type RunOrder } from '../runs/order.ts'

/** Extension of MCP with which a server may answer `tools/call` with a task (SEP-2663). */
export const TASKS_EXTENSION = 'io.modelcontextprotocol/tasks'

const QUEUED = 'Waits for a process that executes tasks'

type Values = Readonly<Record<string, unknown>>

/** A task, as it is stored. Times are milliseconds since 1970. */
export interface Task {
  readonly taskId: string
  readonly status: 'working' | 'input_required' | 'completed' | 'failed' | 'cancelled'
  /** The current step, for people. */
  readonly message?: string | undefined
  readonly createdAt: number
  readonly updatedAt: number
  readonly expiresAt: number
  /** Name of the tool of an agent. */
  readonly tool: string
  readonly runId: string
  /** The call, as data: with it, any process can continue the call. `undefined` after the end. */
  readonly order?: RunOrder | undefined
  /** Number of the execution, from 1; 0 before the first one. Each continuation is one more. Earlier ones change nothing. */
  readonly attempt: number
  /** Process that executes it. Empty: it is queued. */
  readonly process: string
  /** Number of processes that have executed the call since the last answers, or since one was stopped. */
  readonly claims: number
  /** Number of the last round of questions. It is part of the keys of the questions. */
  readonly round: number
  /** Questions of the last round, by key. */
  readonly questions: Readonly<Record<string, InputRequest>>
  /** Answers to some of these questions. */
  readonly answers: Readonly<Record<string, Values>>
  /** Names the paused run that waits for the answers. */
  readonly state?: unknown
  /** State of the run at the server of its agent, with which any process joins it. */
  readonly remote?: unknown
  readonly result?: CallToolResult | undefined
  readonly error?: TaskError | undefined
}

export interface TaskError {
  readonly code: number
  readonly message: string
  readonly data?: unknown
}

/** Unexpected errors show no detail to the client. */
export function toTaskError(error: unknown): TaskError {
  if (!(error instanceof ProtocolError)) {
    return { code: ProtocolErrorCode.InternalError, message: 'Internal error' }
  }
  const { code, data, message } = error
  return { code, message, data }
}

const values = z.custom<Values>(isRecord)

const TaskRow: z.ZodType<Task> = z.object({
  taskId: z.string(),
  status: z.enum(['working', 'input_required', 'completed', 'failed', 'cancelled']),
  message: z.string().optional(),
  createdAt: z.number(),
  updatedAt: z.number(),
  expiresAt: z.number(),
  tool: z.string(),
  runId: z.string(),
  order: StoredOrder.optional(),
  attempt: z.number(),
  process: z.string(),
  claims: z.number(),
  round: z.number(),
  questions: z.record(z.string(), z.custom<InputRequest>(isRecord)),
  answers: z.record(z.string(), values),
  state: z.unknown().optional(),
  remote: z.unknown().optional(),
  // Checked before it was stored.
  result: z.custom<CallToolResult>((value) => isRecord(value) && 'content' in value).optional(),
  error: z
    .object({ code: z.number(), message: z.string(), data: z.unknown().optional() })
    .optional(),
})

/** A change of a task. Events of an execution have its number. */
export type TaskEvent =
  | { readonly type: 'progress'; readonly attempt: number; readonly message: string }
  /** The server of the agent has the run now, or will have it soon. */
  | { readonly type: 'remote'; readonly attempt: number; readonly remote: unknown }
  | {
      readonly type: 'asked'
      readonly attempt: number
      /** By keys that are unique within their round only. */
      readonly questions: Readonly<Record<string, InputRequest>>
      readonly state: unknown
      readonly expiresAt: number
    }
  /** A process begins to execute the call, or continues it after another one has died. */
  | { readonly type: 'claimed'; readonly process: string }
  /** The process stops, and leaves the call to another one. */
  | { readonly type: 'released'; readonly attempt: number }
  /** Answers by the keys of their questions. The last one lets `process` continue the call. */
  | { readonly type: 'answered'; readonly responses: Values; readonly process: string }
  | {
      readonly type: 'ended'
      readonly attempt: number
      readonly result: CallToolResult
      readonly expiresAt: number
    }
  | { readonly type: 'failed'; readonly attempt: number; readonly error: TaskError }
  | { readonly type: 'cancelled' }

/** @returns `undefined` for a value of another version of this package */
export function parseTask(value: unknown): Task | undefined {
  return TaskRow.safeParse(value).data
}

export function newTask(
  facts: Pick<Task, 'taskId' | 'tool' | 'process' | 'expiresAt' | 'remote'> & {
    readonly order: RunOrder
  },
  now: number,
): Task {
  const none = { round: 0, questions: {}, answers: {} }
  const attempt = facts.process === '' ? 0 : 1
  const times = { createdAt: now, updatedAt: now }
  const { runId } = facts.order
  return { ...facts, runId, ...none, ...times, status: 'working', attempt, claims: attempt }
}

/**
 * Returns the task after an event; the same object if the event changes nothing, because it comes too late or from an
 * earlier execution. The only place that changes a status.
 */
export function nextTask(task: Task, event: TaskEvent, now: number): Task {
  if (isTerminal(task)) return task
  if (event.type === 'answered') return withAnswers(task, event, now)
  if (event.type === 'cancelled') return ended(task, { status: 'cancelled' }, now)
  if (task.status !== 'working') return task
  if (event.type === 'claimed') {
    const { attempt, claims } = task
    const { process } = event
    return { ...task, process, attempt: attempt + 1, claims: claims + 1, updatedAt: now }
  }
  if (event.attempt !== task.attempt) return task
  switch (event.type) {
    case 'progress':
      return { ...task, message: event.message, updatedAt: now }
    case 'remote':
      return { ...task, remote: event.remote, updatedAt: now }
    case 'released': // the call does not kill its processes; from its second claim on, it is continued
      return { ...task, process: '', claims: Math.min(task.claims, 1), updatedAt: now }
    case 'asked': {
      const round = task.round + 1
      const questions = Object.entries(event.questions).map(
        ([key, question]) => [`${round}.${key}`, question] as const,
      )
      return {
        ...task,
        status: 'input_required',
        round,
        questions: Object.fromEntries(questions),
        answers: {},
        state: event.state,
        expiresAt: Math.max(task.expiresAt, event.expiresAt),
        updatedAt: now,
      }
    }
    case 'ended': {
      const expiresAt = Math.max(task.expiresAt, event.expiresAt)
      return ended(task, { status: 'completed', result: event.result, expiresAt }, now)
    }
    case 'failed':
      return ended(task, { status: 'failed', error: event.error }, now)
  }
}

export function isTerminal({ status }: Task): boolean {
  return status !== 'working' && status !== 'input_required'
}

/** Returns the answers of a round by the keys that the paused run knows. */
export function roundAnswers({ answers, round }: Task): Values {
  const prefix = `${round}.`.length
  return Object.fromEntries(
    Object.entries(answers).map(([key, answer]) => [key.slice(prefix), answer]),
  )
}

/** Time between two polls that clients are asked to wait: agents take seconds or more. */
const POLL_INTERVAL_MS = 1000

/** Returns the fields that each message about a task has (SEP-2663, "Task"). */
export function toTaskFields(task: Task): Values {
  const { taskId, status, createdAt, updatedAt, expiresAt } = task
  const message = status === 'working' && task.process === '' ? QUEUED : task.message
  return {
    taskId,
    status,
    ...(message !== undefined && { statusMessage: message }),
    createdAt: new Date(createdAt).toISOString(),
    lastUpdatedAt: new Date(updatedAt).toISOString(),
    ttlMs: expiresAt - createdAt,
    pollIntervalMs: POLL_INTERVAL_MS,
  }
}

/** Returns a task with its result, error or open questions (SEP-2663, "DetailedTask"). */
export function toDetailedTask(task: Task): Values {
  const { answers, error, questions, result } = task
  const fields = toTaskFields(task)
  if (task.status === 'input_required') {
    const open = Object.entries(questions).filter(([key]) => !Object.hasOwn(answers, key))
    return { ...fields, inputRequests: Object.fromEntries(open) }
  }
  if (task.status === 'completed') {
    return { ...fields, result: { resultType: 'complete', ...result } }
  }
  return task.status === 'failed' ? { ...fields, error } : fields
}

function withAnswers(
  task: Task,
  { responses, process }: Extract<TaskEvent, { readonly type: 'answered' }>,
  now: number,
): Task {
  const { answers, attempt, questions } = task
  if (task.status !== 'input_required') return task
  const added = Object.entries(responses).filter(
    (entry): entry is [string, Values] =>
      Object.hasOwn(questions, entry[0]) && !Object.hasOwn(answers, entry[0]) && isRecord(entry[1]),
  )
  if (added.length === 0) return task
  const all = { ...answers, ...Object.fromEntries(added) }
  const answered = { ...task, answers: all, updatedAt: now }
  if (Object.keys(all).length < Object.keys(questions).length) return answered
  const claims = process === '' ? 0 : 1
  // The run that asked has ended: another one gets the answers.
  const next = { process, claims, remote: undefined }
  return { ...answered, ...next, status: 'working', attempt: attempt + 1 }
}

function ended(task: Task, end: Partial<Task> & Pick<Task, 'status'>, now: number): Task {
  const { message: _, order: __, ...rest } = task
  const none = { questions: {}, answers: {}, state: undefined, remote: undefined }
  return { ...rest, ...none, ...end, updatedAt: now }
}
