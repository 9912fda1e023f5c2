import { describe, expect, test } from 'vitest'
import { mayRetry, overloadDelayMs, recoveryDelayMs, systemTiming } from './retry.ts'
import type { FailedAttempt, ReplayPolicy, RetryRules } from './retry.ts'

const certain = { code: 'SESSION_LOST', certain: true } as const
const ambiguous = { code: 'SESSION_LOST', certain: false } as const
const broken = { code: 'OUTCOME_UNKNOWN' } as const
const unreachable = { code: 'UNREACHABLE' } as const

const requests = {
  'a tool call': {},
  'a tool call that the caller allows': { isAllowed: true },
  'a tool declared idempotent': { isDeclaredIdempotent: true },
  'a safe request': { isSafe: true },
} as const

type RequestName = keyof typeof requests

function isReplayed(
  error: FailedAttempt,
  { policy, request }: { policy: ReplayPolicy; request: RequestName },
): boolean {
  return mayRetry(error, {
    policy,
    isSafe: false,
    isAllowed: false,
    isDeclaredIdempotent: false,
    hasKey: false,
    ...requests[request],
  })
}

const policies = ['session-loss', 'idempotent', 'never'] as const

interface Row {
  readonly what: string
  readonly error: FailedAttempt
  /** Requests that are sent again under each policy. Under `never`, none is. */
  readonly replayed: Readonly<Record<'session-loss' | 'idempotent', readonly RequestName[]>>
}

const everything = Object.keys(requests) as RequestName[]
const allowed: RequestName[] = ['a tool call that the caller allows']
const mayRunTwice: RequestName[] = [...allowed, 'a tool declared idempotent', 'a safe request']

const table: readonly Row[] = [
  {
    what: 'the session was refused, certainly before anything ran',
    error: certain,
    replayed: { 'session-loss': everything, idempotent: everything },
  },
  {
    what: 'the session was refused, and nothing proves that nothing ran',
    error: ambiguous,
    replayed: { 'session-loss': [...allowed, 'a safe request'], idempotent: mayRunTwice },
  },
  {
    what: 'the connection broke after the request was written',
    error: broken,
    replayed: { 'session-loss': [...allowed, 'a safe request'], idempotent: mayRunTwice },
  },
  {
    what: 'no connection, nothing was written',
    error: unreachable,
    replayed: { 'session-loss': allowed, idempotent: everything },
  },
  ...(
    [
      'TIMEOUT',
      'CLOSED',
      'REJECTED',
      'UNAUTHORIZED',
      'LIMIT',
      'CONFIG',
      'UNEXPECTED_RESPONSE',
      'REENTRANT',
      'INVALID_LIST',
    ] as const
  ).map((code) => ({
    what: code,
    error: { code },
    replayed: { 'session-loss': [], idempotent: [] },
  })),
]

describe.each(table)('$what', ({ error, replayed }) => {
  describe.each(policies)('policy %s', (policy) => {
    test.each(everything)('%s', (request) => {
      const expected = policy !== 'never' && replayed[policy].includes(request)
      expect(isReplayed(error, { policy, request })).toBe(expected)
    })
  })
})

describe('an overloaded server', () => {
  const overloaded = { code: 'REJECTED', status: 429, retryAfterMs: 1000 } as const
  const delayMs = (
    error: Partial<FailedAttempt>,
    rules: Partial<RetryRules> = {},
  ): number | undefined =>
    overloadDelayMs(
      { ...overloaded, ...error },
      {
        policy: 'session-loss',
        isSafe: false,
        isAllowed: false,
        isDeclaredIdempotent: false,
        hasKey: false,
        ...rules,
      },
    )

  test('did not execute a request that it answered with 429', () => {
    expect(delayMs({ status: 429 })).toBe(1000)
  })

  test('may have executed a request that it answered with 503, so only requests that may run twice are sent again', () => {
    expect(delayMs({ status: 503 })).toBeUndefined()
    expect(delayMs({ status: 503 }, { isSafe: true })).toBe(1000)
    expect(delayMs({ status: 503 }, { isAllowed: true })).toBe(1000)
    expect(delayMs({ status: 503 }, { isDeclaredIdempotent: true })).toBeUndefined()
    expect(delayMs({ status: 503 }, { isDeclaredIdempotent: true, policy: 'idempotent' })).toBe(
      1000,
    )
  })

  test('gets no request again if it named no delay', () => {
    expect(delayMs({ retryAfterMs: undefined })).toBeUndefined()
  })

  test('gets no request again with the policy "never", and after other errors', () => {
    expect(delayMs({ status: 429 }, { policy: 'never' })).toBeUndefined()
    expect(delayMs({ status: 400 })).toBeUndefined()
    expect(delayMs({ code: 'LIMIT' })).toBeUndefined()
  })
})

test.each([
  [0, 0, 0],
  [1, 0, 0],
  [2, 50, 100],
  [3, 100, 200],
  [7, 1600, 3200],
  [8, 2500, 5000],
  [5000, 2500, 5000],
])('after %i losses in a row, recovery waits %i to %i ms', (losses, least, most) => {
  const delay = (random: number): number =>
    recoveryDelayMs(losses, { ...systemTiming, random: () => random })
  expect([delay(0), delay(1)]).toEqual([least, most])
})
