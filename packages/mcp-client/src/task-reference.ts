import { assertOptions, check, isRecord } from '@x/internal'
import type { Checks } from '@x/internal'
import { McpClientError } from './errors.ts'
import type { TaskReference } from './input-required.ts'
import type { ScopeSlot } from './scope-slot.ts'
import type { Task } from './task-state.ts'

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
