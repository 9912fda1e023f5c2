import { isRecord } from '@x/internal'
import type { InputRequest } from '@x/mcp-transport'

/** State of a task on its server (the extension `io.modelcontextprotocol/tasks`). */
export interface TaskStatus {
  readonly status: 'working' | 'input_required' | 'completed' | 'failed' | 'cancelled'
  /** For people. At most 2000 characters. */
  readonly statusMessage: string | undefined
  /** Questions of the server that wait for answers, by its keys. */
  readonly inputRequests: Readonly<Record<string, InputRequest>> | undefined
  /** Time from the creation for which the server keeps the task, in milliseconds. `null`: no limit. */
  readonly ttlMs: number | null
  /** Time between two polls that the server asks for, in milliseconds. */
  readonly pollIntervalMs: number | undefined
}

/** A task as the server describes it. */
export interface Task extends TaskStatus {
  readonly taskId: string
  readonly result: unknown
  readonly error: unknown
}

/** Returns the task in the answer to a call or a poll. Undefined for anything else. */
export function parseTask(value: unknown): Task | undefined {
  if (!isRecord(value)) return undefined
  const { taskId, status, statusMessage, inputRequests, result, error } = value
  const { ttlMs, pollIntervalMs } = value
  if (typeof taskId !== 'string' || taskId === '' || !isStatus(status)) return undefined
  return {
    taskId,
    status,
    ttlMs: isCount(ttlMs) ? ttlMs : null,
    statusMessage: typeof statusMessage === 'string' ? shortened(statusMessage) : undefined,
    inputRequests: isInputRequests(inputRequests) ? inputRequests : undefined,
    pollIntervalMs: isCount(pollIntervalMs) ? pollIntervalMs : undefined,
    result: status === 'completed' ? result : undefined,
    error: status === 'failed' ? error : undefined,
  }
}

export function isFinal(
  task: Task | undefined,
): task is Task & { readonly status: 'completed' | 'failed' | 'cancelled' } {
  return task !== undefined && task.status !== 'working' && task.status !== 'input_required'
}

/** Limit of a text of the server in errors, progress and events. */
const MAX_MESSAGE_CHARS = 2000

export function shortened(text: string): string {
  return text.length > MAX_MESSAGE_CHARS ? `${text.slice(0, MAX_MESSAGE_CHARS - 1)}…` : text
}

/** A longer time has no date. Servers that name one mean: no limit. */
const MAX_TTL_MS = 1e15

function isCount(value: unknown): value is number {
  return typeof value === 'number' && value >= 0 && value < MAX_TTL_MS
}

function isStatus(value: unknown): value is TaskStatus['status'] {
  return (
    value === 'working' ||
    value === 'input_required' ||
    value === 'completed' ||
    value === 'failed' ||
    value === 'cancelled'
  )
}

function isInputRequests(value: unknown): value is Readonly<Record<string, InputRequest>> {
  return (
    isRecord(value) &&
    Object.values(value).every((one) => isRecord(one) && typeof one['method'] === 'string')
  )
}
