import { setTimeout as sleep } from 'node:timers/promises'
import { TransportError } from '@x/mcp-transport'
import {
  getFailure,
  getTransportError,
  isConnectionFailure,
  isGatewayStatus,
  McpClientError,
} from './errors.ts'
import type { McpClientErrorCode } from './errors.ts'

/**
 * When a request may be sent again.
 *
 * - `session-loss`: if the server refused the session before it ran anything. If that is uncertain, and after a broken
 *   connection, only requests that may run twice are sent again: list, read, get, complete, ping, subscribe,
 *   unsubscribe and setLevel.
 * - `idempotent`: also tools whose annotations say read-only or idempotent (this option trusts the annotations), and
 *   requests that never reached the server.
 * - `never`: the client opens a new session, and the call rejects.
 *
 * With the first two, a call with `idempotent: true` may always run twice. After 429 with `Retry-After` the client
 * waits and sends the request again, or rejects at once if the limit of the operation ends first; after 503 only if the
 * request may run twice, or was not sent because no session could be opened.
 * A call with an idempotency key that the server honours is repeated as `maxRetries` says.
 */
export type ReplayPolicy = 'session-loss' | 'idempotent' | 'never'

/** Result of a failed attempt, as far as it matters for a retry. */
type FailedAttempt = Partial<
  Pick<TransportError, 'certain' | 'status' | 'outcome' | 'retryAfterMs' | 'serverError'>
> & { readonly code: McpClientErrorCode }

/** Properties of the request that decide about a retry. */
export interface RetryRules {
  readonly policy: ReplayPolicy
  /** The caller allowed this call to run twice. */
  readonly isAllowed: boolean
  /**
   * A second execution does no harm: the request is a list, read, get, complete, ping, subscribe, unsubscribe or
   * setLevel, the caller allowed it, or the policy trusts the annotations of the tool.
   */
  readonly mayRunTwice: boolean
  /** The request has an idempotency key, and the server runs requests with the same key once. */
  readonly hasKey: boolean
}

/** A server that honours keys resolves these failures when it gets the request again. */
const RESOLVED_BY_KEY: ReadonlySet<McpClientErrorCode> = new Set([
  'OUTCOME_UNKNOWN',
  'SESSION_LOST',
  'UNREACHABLE',
  'UNEXPECTED_RESPONSE',
  'TIMEOUT',
])

/** Returns true if the failed request can be sent again without the risk of an unwanted second execution. */
function mayRetry(error: FailedAttempt, rules: RetryRules): boolean {
  const { policy, isAllowed, mayRunTwice, hasKey } = rules
  if (policy === 'never') return false
  if (hasKey && RESOLVED_BY_KEY.has(error.code)) return true
  const { status = 0, serverError } = error
  if (hasKey && error.code === 'REJECTED' && status >= 500) {
    return serverError === undefined || isGatewayStatus(status)
  }
  // Only a certain refusal proves that nothing was executed.
  if (error.code === 'SESSION_LOST') return error.certain === true || mayRunTwice
  // The request was not sent, so a retry is safe. By default, the caller decides when to try again.
  if (error.code === 'UNREACHABLE') return isAllowed || policy === 'idempotent'
  return error.code === 'OUTCOME_UNKNOWN' && mayRunTwice
}

/**
 * Returns the delay that an overloaded server asked for, in milliseconds. Returns undefined if the server asked for
 * none, or if the request must not be sent again. A request that was refused with 429 was not executed, unless the
 * error has the id of the request. After 503, the request may have been executed. Where that is possible, only
 * requests that may run twice are sent again.
 */
function overloadDelayMs(error: FailedAttempt, rules: RetryRules): number | undefined {
  const { code, status, outcome, retryAfterMs } = error
  const isOverload = code === 'REJECTED' && (status === 429 || status === 503)
  if (rules.policy === 'never' || !isOverload) return undefined
  const isHarmless = outcome === 'not-executed' || rules.hasKey || rules.mayRunTwice
  return isHarmless ? retryAfterMs : undefined
}

/**
 * Returns the time to wait before the request is sent again, in milliseconds. Returns undefined if it must not be sent
 * again, or if the delay is longer than `leftMs`, the time that the operation has left.
 */
export function retryDelayMs(
  error: unknown,
  rules: RetryRules,
  leftMs: number,
): number | undefined {
  const failed = failedAttempt(error)
  if (failed === undefined) return undefined
  const delayMs = overloadDelayMs(failed, rules)
  if (delayMs !== undefined) return delayMs < leftMs ? delayMs : undefined
  return mayRetry(failed, rules) ? 0 : undefined
}

/**
 * Returns whether an attempt failed because the server is away, or does not answer in time. Any other failure shows that
 * it answers, and may do so in the same way for ever.
 */
export function isAway(error: unknown): boolean {
  const failed = failedAttempt(error)
  return isConnectionFailure(failed) || failed?.code === 'TIMEOUT'
}

/** Returns the failure that the retry decision is about. If a later round of a call failed, that is the failure of the round. */
function failedAttempt(error: unknown): FailedAttempt | undefined {
  const failure = getTransportError(error)
  if (failure !== undefined) {
    const { resume, cause } = failure
    return resume !== undefined && TransportError.is(cause) ? cause : failure
  }
  if (!McpClientError.is(error)) return undefined
  // No session could be opened, so nothing was sent.
  const { code, retryAfterMs } = error
  const isUnsent = error.outcome === 'not-executed'
  const outcome = isUnsent ? 'not-executed' : 'unknown'
  const { status } = getFailure(error) ?? {}
  return { code, certain: isUnsent, outcome, status, retryAfterMs }
}

/** Clock and randomness of retries. Replace it in tests. */
export interface RetryTiming {
  /** Waits `ms` milliseconds. @throws if `signal` aborts before */
  readonly wait: (ms: number, signal: AbortSignal) => Promise<unknown>
  /** Returns a number from 0 to 1. Spreads the clients that lost the same server at the same time. */
  readonly random: () => number
}

export const systemTiming: RetryTiming = {
  wait: (ms, signal) => sleep(ms, undefined, { signal }),
  random: Math.random,
}

const FIRST_MS = 100
const MAX_MS = 5000

/**
 * Returns the time to wait before a lost session is replaced, in milliseconds. `lossesInRow` counts losses without a
 * successful call between them. No wait after the first; then 50 to 100 % of 100 ms, doubled each time up to 5 s.
 */
export function recoveryDelayMs(lossesInRow: number, { random }: RetryTiming): number {
  if (lossesInRow < 2) return 0
  const ms = Math.min(FIRST_MS * 2 ** (lossesInRow - 2), MAX_MS)
  return ms * (0.5 + random() / 2)
}
