import { assertOptions, check, isRecord } from '@x/internal'
import type { Checks } from '@x/internal'
import type { InputRequest } from '@x/mcp-transport'
import { McpClientError } from './errors.ts'
import type { TaskReference } from './input-required.ts'
import type { ScopeSlot } from './scope-slot.ts'

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

/** Returns the reference of a task that the server has just created. */
export function createReference(
  { taskId, ttlMs }: Task,
  tool: string,
  {
    slot,
    idempotencyKey,
  }: { readonly slot: ScopeSlot; readonly idempotencyKey: string | undefined },
): TaskReference {
  const { connection, scope } = slot
  const createdAt = new Date().toISOString()
  return {
    v: 1,
    server: connection?.endpoint ?? '',
    principal: scope?.principal ?? null,
    taskId,
    tool,
    protocolVersion: connection?.protocolVersion ?? '',
    createdAt,
    expiresAt: expiryOf(createdAt, ttlMs),
    idempotencyKey: idempotencyKey ?? null,
    answeredKeys: [],
  }
}

/** @throws McpClientError `TASK_REFERENCE` for an invalid reference, and for a reference to a task of another tool */
export function assertReference(
  given: unknown,
  { server, tool }: { readonly server: string; readonly tool?: string | undefined },
): asserts given is TaskReference {
  const unusable = (problem: string): McpClientError => {
    const message = `The reference of a task of MCP server "${server}" cannot be used: ${problem}. Pass task.reference unchanged`
    return new McpClientError('TASK_REFERENCE', message, { server, outcome: 'unknown' })
  }
  if (!isRecord(given) || given['v'] !== 1) throw unusable('it is not a reference of version 1')
  if (tool !== undefined && given['tool'] !== tool) {
    throw unusable(`it does not belong to a call of "${tool}"`)
  }
  assertOptions(({ message }) => unusable(message), given, referenceChecks)
}

/** Returns the end of the time for which the server keeps a task. */
export function expiryOf(createdAt: string, ttlMs: number | null): string | null {
  return ttlMs === null ? null : new Date(Date.parse(createdAt) + ttlMs).toISOString()
}

const referenceChecks: Checks<TaskReference> = {
  v: { takes: '1', accepts: (value) => value === 1 },
  server: check.required(check.text),
  principal: { takes: 'a string or null', accepts: isTextOrNull },
  taskId: check.required(check.text),
  tool: check.required(check.text),
  protocolVersion: check.required(check.string),
  createdAt: { takes: 'a date', accepts: isDate },
  expiresAt: { takes: 'a date or null', accepts: (value) => value === null || isDate(value) },
  idempotencyKey: { takes: 'a string or null', accepts: isTextOrNull },
  answeredKeys: {
    takes: 'a list of strings',
    accepts: (value) => Array.isArray(value) && value.every((one) => typeof one === 'string'),
  },
}

function isTextOrNull(value: unknown): boolean {
  return value === null || typeof value === 'string'
}

function isDate(value: unknown): boolean {
  return typeof value === 'string' && !Number.isNaN(Date.parse(value))
}
