import { expect, test } from 'vitest'
import { TokenBuckets } from './token-buckets.ts'

test('refills a bucket with time, up to the tokens of a minute, and ignores a clock that goes back', async () => {
  let now = 100_000
  const buckets = new TokenBuckets(() => now)
  const take = (): Promise<number> => buckets.take('b', 2)
  expect([await take(), await take(), await take()]).toEqual([0, 0, 30_000])
  now += 12_000
  expect(await take()).toBe(18_000)
  now += 18_000
  expect(await take()).toBe(0)
  now += 1_000_000
  expect([await take(), await take(), await take()]).toEqual([0, 0, 30_000])
  now = 0
  expect(await take()).toBe(30_000)
})
