import { describe, expect, test } from 'vitest'
import { overloadDelayMs, recoveryDelayMs, systemTiming } from './retry.ts'
import type { FailedAttempt, RetryRules } from './retry.ts'

describe('an overloaded server', () => {
  const overloaded = { code: 'REJECTED', status: 429, retryAfterMs: 1000 } as const
  const policy = 'session-loss'
  const strict = { policy, isAllowed: false, mayRunTwice: false, hasKey: false } as const
  const delayMs = (
    error: Partial<FailedAttempt>,
    rules: Partial<RetryRules> = {},
  ): number | undefined => overloadDelayMs({ ...overloaded, ...error }, { ...strict, ...rules })

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
