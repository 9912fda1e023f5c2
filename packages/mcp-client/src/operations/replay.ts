import type { McpClientErrorCode, OperationOutcome } from '../mcp-client-error.ts'

/**
 * When a request may be sent again.
 *
 * - `session-loss`: if the server refused the session before it ran anything; where that is in doubt, what
 *   changes nothing: list, read, get and ping requests
 * - `idempotent`: also after a broken connection, for what may run twice: those requests, and tools whose
 *   annotations say read-only or idempotent (choosing this is the trust); and everything once more that
 *   never reached the server
 * - `never`: the session is healed all the same, and the error handed on
 *
 * With the first two, a call with `idempotent: true` may always run twice; and what an overloaded server
 * refused with 429 and `Retry-After` waits for that long, within the limit of the operation. After 503 that
 * is so for what may run twice.
 */
export type ReplayPolicy = 'session-loss' | 'idempotent' | 'never'

/** What of a failed attempt decides whether there may be another. */
export interface FailedAttempt {
  readonly code: McpClientErrorCode
  /** With `SESSION_LOST`: the server refused the session before it ran anything. */
  readonly certain?: boolean | undefined
  /** HTTP status, where that is what failed. */
  readonly status?: number | undefined
  /** What became of the request in this attempt. */
  readonly outcome?: OperationOutcome | undefined
  /** The delay that the server asked for, in milliseconds. */
  readonly retryAfterMs?: number | undefined
}

export interface ReplayQuestion {
  readonly error: FailedAttempt
  readonly policy: ReplayPolicy
  /** A request that changes nothing: list, read, get, complete, ping. */
  readonly isSafe: boolean
  /** The caller said that this very call may run twice. */
  readonly isAllowed: boolean
  /** The tool's annotations say that it may run twice. */
  readonly isDeclaredIdempotent: boolean
}

/** Whether sending the failed request again can never make anything happen twice that must not. */
export function mayReplay(question: ReplayQuestion): boolean {
  const { error, policy, isSafe, isAllowed, isDeclaredIdempotent } = question
  if (policy === 'never') return false
  const mayRunTwice = isAllowed || (policy === 'idempotent' && (isSafe || isDeclaredIdempotent))
  // Only a certain refusal proves that nothing was executed.
  if (error.code === 'SESSION_LOST') return error.certain === true || isSafe || mayRunTwice
  // Nothing was sent to an unreachable server; whether to try again at once is the caller's to say.
  if (error.code === 'UNREACHABLE') return isAllowed || policy === 'idempotent'
  return error.code === 'OUTCOME_UNKNOWN' && mayRunTwice
}

/**
 * How long an overloaded server wants to be left alone before a request is sent again; `undefined` where
 * it did not say so, or where the request may have been executed. 503 leaves that open; 429 does not, except
 * in an error with the id of the request.
 */
export function overloadDelay(question: ReplayQuestion): number | undefined {
  const { error, policy, isSafe, isAllowed, isDeclaredIdempotent } = question
  if (policy === 'never' || error.code !== 'REJECTED') return undefined
  const mayRunTwice = isSafe || isAllowed || (policy === 'idempotent' && isDeclaredIdempotent)
  const isUnread = error.status === 429 && error.outcome !== 'unknown'
  const isOverload = error.status === 429 || error.status === 503
  const isHarmless = isUnread || (isOverload && mayRunTwice)
  return isHarmless ? error.retryAfterMs : undefined
}
