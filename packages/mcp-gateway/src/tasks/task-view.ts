import { isRecord } from '@x/internal'
import { toEnd, type CallRecord, type TaskFacts } from '../runs/call-record.ts'
import { toInputRequests, type AnswersReading, type QuestionForm } from '../runs/forms.ts'
import { openForms } from '../runs/call-outcome.ts'

/** Extension of MCP with which a server may answer `tools/call` with a task (SEP-2663). */
export const TASKS_EXTENSION = 'io.modelcontextprotocol/tasks'

type Values = Readonly<Record<string, unknown>>
type Status = 'working' | 'input_required' | 'completed' | 'failed' | 'cancelled'

/** A call that is a task. */
export type TaskCallRecord = CallRecord & { readonly task: TaskFacts }

export function isTask(call: CallRecord): call is TaskCallRecord {
  return call.task !== undefined
}

/** Returns the task of this id as it is, or as it ended before its call was continued by another one. */
export function taskOf(call: CallRecord, taskId: string): TaskCallRecord | undefined {
  const { told } = call
  if (told && taskIdOf({ ...call, task: told }) === taskId) {
    return { ...call, task: told, state: { status: 'ended', end: toEnd(told.result) } }
  }
  return isTask(call) && taskIdOf(call) === taskId ? call : undefined
}

const QUEUED = 'Waits for a process that executes tasks'
/** Time between two polls that clients are asked to wait: agents take seconds or more. */
const POLL_INTERVAL_MS = 1000

/** Returns the id of a task. It cannot be guessed. */
export function taskIdOf({ runId, secret, task }: TaskCallRecord): string {
  return `task_${runId.slice('run_'.length)}${secret}${task.began}`
}

/** @returns `undefined` for anything but an id of a task */
export function runIdOfTask(taskId: string): string | undefined {
  const [, run] = /^task_([\da-f]{16})[\da-f]{16}\d+$/.exec(taskId) ?? []
  return run && `run_${run}`
}

/** Returns the fields that each message about a task has (SEP-2663, "Task"). */
export function toTaskFields(call: TaskCallRecord): Values {
  const { createdAt, expiresAt, state, updatedAt } = call
  const isQueued = state.status === 'running' && state.process === ''
  const message = state.status === 'running' ? (isQueued ? QUEUED : state.message) : undefined
  return {
    taskId: taskIdOf(call),
    status: statusOf(call),
    ...(message !== undefined && { statusMessage: message }),
    createdAt: new Date(createdAt).toISOString(),
    lastUpdatedAt: new Date(updatedAt).toISOString(),
    ttlMs: expiresAt - createdAt,
    pollIntervalMs: POLL_INTERVAL_MS,
  }
}

/** Returns a task with its result, error or open questions (SEP-2663, "DetailedTask"). */
export function toDetailedTask(call: TaskCallRecord): Values {
  const fields = toTaskFields(call)
  const { state } = call
  if (state.status === 'running') return fields
  if (state.status === 'asking') {
    const open = openTaskForms(call).map(({ key, form }) => [key, form] as const)
    return {
      ...fields,
      inputRequests: toInputRequests(open.map(([key, form]) => ({ ...form, key }))),
    }
  }
  if (state.end.type === 'error') return { ...fields, error: state.end.error }
  if (state.end.type !== 'result') return fields
  return { ...fields, result: { resultType: 'complete', ...state.end.result } }
}

function statusOf({ state }: CallRecord): Status {
  switch (state.status) {
    case 'running':
      return 'working'
    case 'asking':
      return 'input_required'
    case 'ended':
      if (state.end.type === 'cancelled') return 'cancelled'
      return state.end.type === 'error' ? 'failed' : 'completed'
  }
}

/** How answers were read of which some do not fit. */
export type RefusedAnswers = Extract<AnswersReading, { type: 'errors' }>

/**
 * Returns the questions of a task that have no answer, with their keys: those of a later round differ.
 *
 * @param refused adds to each question why its answer was refused
 */
export function openTaskForms(
  call: CallRecord,
  refused?: RefusedAnswers,
): readonly { readonly key: string; readonly form: QuestionForm }[] {
  const { order, round, state } = call
  if (state.status !== 'asking' || !order) return []
  return openForms(call, order.client, refused)
    .filter(({ key }) => !Object.hasOwn(state.given, key))
    .map((form) => ({ key: `${round}.${form.key}`, form }))
}

/** Returns those answers that are new, by the keys of the forms. */
export function newAnswers(call: CallRecord, responses: Values): Values {
  return Object.fromEntries(
    openTaskForms(call).flatMap(({ form, key }) => {
      const response = responses[key]
      return isRecord(response) ? [[form.key, response] as const] : []
    }),
  )
}

/** Returns the keys of those answers that belong to no open question. */
export function unknownKeys(call: CallRecord, responses: Values): readonly string[] {
  const open = new Set(openTaskForms(call).map(({ key }) => key))
  return Object.keys(responses).filter((key) => !open.has(key))
}

/** Returns whether these answers are the last ones for the open questions of a task. */
export function areLast(call: CallRecord, answers: Values): boolean {
  return openTaskForms(call).length === Object.keys(answers).length
}
