import { expect, test } from 'vitest'
import { TokenBuckets } from './token-buckets.ts'

test('refills a bucket with time, up to the burst', async () => {
  let now = 0
  const buckets = new TokenBuckets(() => now)
  const rate = { perMinute: 60, burst: 2 }
  expect([await buckets.take('b', rate), await buckets.take('b', rate)]).toEqual([0, 0])
  expect(await buckets.take('b', rate)).toBe(1000)
  now = 400
  expect(await buckets.take('b', rate)).toBe(600)
  now = 1000
  expect(await buckets.take('b', rate)).toBe(0)
  now = 1_000_000
  expect([await buckets.take('b', rate), await buckets.take('b', rate)]).toEqual([0, 0])
  expect(await buckets.take('b', rate)).toBe(1000)
})

test('uses the rate of a minute as burst, and ignores a clock that goes back', async () => {
  let now = 1000
  const buckets = new TokenBuckets(() => now)
  for (let n = 0; n < 3; n++) expect(await buckets.take('b', { perMinute: 3 })).toBe(0)
  now = 0
  expect(await buckets.take('b', { perMinute: 3 })).toBe(20_000)
})
