import { setImmediate } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { mapBounded } from './map-bounded.ts'

test('never more at a time than allowed, and results in the order of the items', async () => {
  let running = 0
  let most = 0
  const map = async (n: number): Promise<number> => {
    most = Math.max(most, ++running)
    for (let turns = 10 - n; turns > 0; turns--) await setImmediate() // the last ones are the fastest
    running--
    return n * 10
  }
  const items = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
  const results = await mapBounded(items, { concurrency: 3, map })
  expect(results).toEqual(items.map((n) => n * 10))
  expect(most).toBe(3)
})

test('nothing gives nothing', async () => {
  expect(await mapBounded([], { concurrency: 3, map: async () => 1 })).toEqual([])
})
