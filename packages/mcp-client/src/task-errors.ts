import { abortReason, isRecord } from '@x/internal'
import { ErrorCode, McpError } from '@modelcontextprotocol/sdk/types.js'
import { getFailure, getTransportError, isTimeout, McpClientError } from './errors.ts'
import type { McpClientErrorCode } from './errors.ts'
import type { TaskReference } from './input-required.ts'
import { shortened } from './task-data.ts'
import type { Task } from './task-data.ts'

/** The task that an error is about. */
export interface FailedTask {
  /** Name of the server in messages. */
  readonly server: string
  readonly reference: TaskReference
  /** The server has shown the task to this process. */
  readonly isKnown: boolean
}

/** Errors of JSON-RPC and MCP with which a server refuses a request. It gives others if it could not answer in time. */
const REFUSALS: ReadonlySet<number> = new Set([
  -32700, -32600, -32601, -32602, -32020, -32021, -32022,
])
const INVALID_PARAMS: number = ErrorCode.InvalidParams
/** Request Timeout, Too Early, Too Many Requests. */
const BUSY: ReadonlySet<number> = new Set([408, 425, 429])
const TEMPORARY: ReadonlySet<McpClientErrorCode> = new Set([
  'UNREACHABLE',
  'OUTCOME_UNKNOWN',
  'TIMEOUT',
  'SESSION_LOST',
])

const CHECK = 'The tool may have run in part: check before you call it again'

/** Returns the error for the caller of an operation that failed, or that `signal` has ended. */
export function toTaskError(task: FailedTask, cause: unknown, signal: AbortSignal): unknown {
  if (isAbort(signal)) return signal.reason
  const error = isClosed(signal) ? signal.reason : cause
  if (isTimeout(signal)) {
    const { message } = abortReason(signal)
    const state =
      isTemporary(error) && error instanceof Error
        ? `may still be running, and its server does not answer: ${error.message}. The time limit has passed`
        : 'is still running, and the time limit has passed'
    const advice = 'Continue with resumeTask(), or raise timeoutMs'
    const text = `${state}: ${message}. ${advice}`
    return taskError(task, { code: 'TIMEOUT', text, cause: error })
  }
  if (McpClientError.is(error)) {
    if (error.task !== undefined || error.outcome === 'executed') return error
    const { code } = error
    return taskError(task, { code, text: `could not be continued: ${error.message}`, cause: error })
  }
  const failure = getTransportError(error)
  if (failure !== undefined) {
    const advice = 'It may still be running: continue with resumeTask()'
    const text = `could not be continued: ${failure.message}. ${advice}`
    return taskError(task, { code: failure.code, text, cause: failure })
  }
  if (!(error instanceof McpError)) return error
  if (error.code === INVALID_PARAMS && task.isKnown) return expiredError(task, error)
  const text =
    error.code === INVALID_PARAMS
      ? 'is not known to the server: it has expired, or belongs to somebody else'
      : `is refused by the server: ${error.message}`
  return taskError(task, { code: 'TASK_UNKNOWN', text: `${text}. ${CHECK}`, cause: error })
}

/** Returns the error of a task that has ended without a result. */
export function endError(task: FailedTask, { status, statusMessage, error }: Task): McpClientError {
  if (status === 'cancelled') {
    const reason = statusMessage === undefined ? '' : `: ${statusMessage}`
    return taskError(task, { code: 'TASK_CANCELLED', text: `was cancelled${reason}. ${CHECK}` })
  }
  const { code, message, data } = isRecord(error) ? error : {}
  const cause = new McpError(
    typeof code === 'number' ? code : ErrorCode.InternalError,
    typeof message === 'string' ? shortened(message) : 'The server gave no reason',
    data,
  )
  const text = `failed: ${cause.message}. ${CHECK}`
  return taskError(task, { code: 'TASK_FAILED', text, cause })
}

/** Returns the error of a task that waits for an answer, which this client cannot give because of `cause`. */
export function noInputError(task: FailedTask, cause: unknown): McpClientError {
  const why = cause instanceof Error ? cause.message : String(cause)
  const text = `waits for an answer that was not given: ${why}. Continue with resumeTask() and a handler, or cancel it`
  return taskError(task, { code: 'TASK_INPUT', text, cause })
}

export function expiredError(task: FailedTask, cause?: unknown): McpClientError {
  const text = `has expired on the server without a result. ${CHECK}`
  return taskError(task, { code: 'TASK_EXPIRED', text, cause })
}

/** Creates an error of a tool that may have run: no answer about its task proves that it did not. */
export function taskError(
  task: FailedTask,
  {
    code,
    text,
    cause,
  }: { readonly code: McpClientErrorCode; readonly text: string; readonly cause?: unknown },
): McpClientError {
  const { server, reference } = task
  return new McpClientError(code, taskMessage(task, text), {
    server,
    tool: reference.tool,
    outcome: 'unknown',
    task: reference,
    retryAfterMs: getFailure(cause)?.retryAfterMs,
    ...(cause === undefined ? {} : { cause }),
  })
}

export function taskMessage(
  { server, reference }: Pick<FailedTask, 'server' | 'reference'>,
  text: string,
): string {
  return `tool "${reference.tool}" of MCP server "${server}": the task ${text}`
}

/** Returns whether the client was disposed of. */
function isClosed({ reason }: AbortSignal): boolean {
  return McpClientError.is(reason) && reason.code === 'CLOSED'
}

/** Returns whether the caller has aborted. */
export function isAbort(signal: AbortSignal): boolean {
  return signal.aborted && !isTimeout(signal) && !isClosed(signal)
}

/** Returns whether the same request may succeed later. */
export function isTemporary(error: unknown): boolean {
  const failure = getFailure(error)
  const code = McpClientError.is(error) ? error.code : failure?.code
  if (code === undefined) return error instanceof McpError && !REFUSALS.has(error.code)
  const { status = 0 } = failure ?? {}
  return TEMPORARY.has(code) || (code === 'REJECTED' && (status >= 500 || BUSY.has(status)))
}

/** A server that names a longer time in a JSON-RPC error is asked after this time, in milliseconds. */
const MAX_ASKED_MS = 60_000

/** Returns the time for which the server asks to wait before the request is repeated, in milliseconds. */
export function retryAfterOf(error: unknown): number {
  const failure = getFailure(error)
  if (failure !== undefined) return failure.retryAfterMs ?? 0
  const data: unknown = error instanceof McpError ? error.data : undefined
  const ms = isRecord(data) ? data['retryAfterMs'] : undefined
  return typeof ms === 'number' && ms > 0 ? Math.min(ms, MAX_ASKED_MS) : 0
}
