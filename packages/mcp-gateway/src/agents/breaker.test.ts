import { DEFAULTS } from '../../test/settings.ts'
import { expect, test } from 'vitest'

import { ManualClock } from '../../test/manual-clock.ts'
import { Breaker, type RunEnd } from './breaker.ts'

function breakerAfter(...ends: readonly RunEnd[]): { breaker: Breaker; clock: ManualClock } {
  const clock = new ManualClock()
  const breaker = new Breaker(clock, DEFAULTS.registry.breaker)
  runs(breaker, 'ada', ends)
  return { breaker, clock }
}

function runs(breaker: Breaker, caller: string, ends: readonly RunEnd[]): void {
  for (const end of ends) {
    breaker.enter(caller)
    breaker.settle(caller, end)
  }
}

const fiveFailures: readonly RunEnd[] = ['failed', 'failed', 'failed', 'failed', 'failed']

test.each<[string, readonly RunEnd[], number]>([
  ['lets a caller in after four failures', fiveFailures.slice(1), 0],
  ['refuses a caller after five failures', fiveFailures, 30_000],
  ['counts failures in a row only', [...fiveFailures.slice(1), 'worked', 'failed'], 0],
  [
    'ignores runs that their caller gave up',
    Array.from({ length: 9 }, () => 'unknown' as const),
    0,
  ],
])('%s', (_what, ends, waitMs) => {
  const { breaker } = breakerAfter(...ends)
  expect(breaker.enter('ada')).toBe(waitMs)
  expect(breaker.enter('ben')).toBe(0)
})

test('lets one run through after 30 s, and closes when it works', async () => {
  const { breaker, clock } = breakerAfter(...fiveFailures)
  await clock.advance(29_999)
  expect(breaker.enter('ada')).toBe(1)
  await clock.advance(1)
  expect(breaker.enter('ada')).toBe(0)
  expect(breaker.enter('ada')).toBeGreaterThan(0)
  breaker.settle('ada', 'worked')
  expect(breaker.isFailing).toBe(false)
  expect(breaker.enter('ada')).toBe(0)
})

test('waits again after a failed probe, and lets another through after one that was given up', async () => {
  const { breaker, clock } = breakerAfter(...fiveFailures)
  await clock.advance(30_000)
  runs(breaker, 'ada', ['failed'])
  expect(breaker.enter('ada')).toBe(30_000)
  await clock.advance(30_000)
  runs(breaker, 'ada', ['unknown'])
  expect(breaker.enter('ada')).toBe(0)
})

test('is not kept open by runs that began before it opened', async () => {
  const { breaker, clock } = breakerAfter(...fiveFailures)
  await clock.advance(20_000)
  breaker.settle('ada', 'failed')
  await clock.advance(10_000)
  expect(breaker.enter('ada')).toBe(0)
})

test('refuses all after three callers with five failures, and lets one run of anybody through', async () => {
  const { breaker, clock } = breakerAfter(...fiveFailures)
  runs(breaker, 'ben', fiveFailures)
  expect(breaker.enter('dan')).toBe(0)
  breaker.settle('dan', 'unknown')
  runs(breaker, 'cleo', fiveFailures)
  expect(breaker.enter('dan')).toBe(30_000)
  await clock.advance(30_000)
  expect(breaker.enter('dan')).toBe(0)
  expect(breaker.enter('ada')).toBe(30_000)
  breaker.settle('dan', 'failed')
  expect(breaker.enter('ada')).toBe(30_000)
  await clock.advance(30_000)
  runs(breaker, 'dan', ['worked'])
  for (const caller of ['ada', 'ben', 'cleo', 'dan']) expect(breaker.enter(caller)).toBe(0)
})

test('does not refuse all while somebody has a success', () => {
  const { breaker } = breakerAfter(...fiveFailures)
  runs(breaker, 'ben', fiveFailures)
  runs(breaker, 'dan', ['worked'])
  runs(breaker, 'cleo', fiveFailures)
  expect(breaker.enter('dan')).toBe(0)
  expect(breaker.enter('ada')).toBe(30_000)
})

test('remembers the failures of a bounded number of callers', () => {
  const { breaker } = breakerAfter(...fiveFailures)
  for (let n = 0; n < 1000; n++) runs(breaker, `caller ${n}`, ['failed'])
  expect(breaker.enter('ada')).toBe(0)
  expect(breaker.isFailing).toBe(false)
})
