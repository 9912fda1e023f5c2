import { expect, test } from 'vitest'

import { ManualClock } from '../../test/manual-clock.ts'
import { Breaker, type RunEnd } from './breaker.ts'

function breakerAfter(...ends: readonly RunEnd[]): { breaker: Breaker; clock: ManualClock } {
  const clock = new ManualClock()
  const breaker = new Breaker({ clock })
  for (const end of ends) {
    breaker.enter()
    breaker.settle(end)
  }
  return { breaker, clock }
}

const fiveFailures: readonly RunEnd[] = ['failed', 'failed', 'failed', 'failed', 'failed']

test.each<[string, readonly RunEnd[], number]>([
  ['four failures', fiveFailures.slice(1), 0],
  ['five failures', fiveFailures, 30_000],
  ['failures with a success between', [...fiveFailures.slice(1), 'worked', 'failed'], 0],
  ['callers who gave up', Array.from({ length: 9 }, () => 'unknown' as const), 0],
])('after %s', (_what, ends, waitMs) => {
  expect(breakerAfter(...ends).breaker.enter()).toBe(waitMs)
})

test('lets one through after 30 s, to see', async () => {
  const { breaker, clock } = breakerAfter(...fiveFailures)
  await clock.advance(29_999)
  expect(breaker.enter()).toBe(1)
  await clock.advance(1)
  expect(breaker.enter()).toBe(0)
  expect(breaker.enter()).toBeGreaterThan(0)
  breaker.settle('worked')
  expect(breaker.isClosed).toBe(true)
  expect(breaker.enter()).toBe(0)
})

test('waits again after a failed probe, and lets another through after one that was given up', async () => {
  const { breaker, clock } = breakerAfter(...fiveFailures)
  await clock.advance(30_000)
  breaker.enter()
  breaker.settle('failed')
  expect(breaker.enter()).toBe(30_000)
  await clock.advance(30_000)
  breaker.enter()
  breaker.settle('unknown')
  expect(breaker.enter()).toBe(0)
})

test('is not kept open by runs that began before', async () => {
  const { breaker, clock } = breakerAfter(...fiveFailures)
  await clock.advance(20_000)
  breaker.settle('failed')
  await clock.advance(10_000)
  expect(breaker.enter()).toBe(0)
})
