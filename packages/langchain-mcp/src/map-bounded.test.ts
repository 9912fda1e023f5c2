import { EventEmitter, once } from 'node:events'
import { expect, test } from 'vitest'
import { mapBounded } from './map-bounded.ts'

test('keeps the order, whichever item is ready first', async () => {
  const started = new EventEmitter()
  const results = mapBounded([0, 1, 2], 3, async (index) => {
    if (index === 0) await once(started, 'last')
    if (index === 2) started.emit('last')
    return index * 10
  })
  await expect(results).resolves.toEqual([0, 10, 20])
})

test('never works on more items than the limit', async () => {
  let working = 0
  let most = 0
  await mapBounded(Array.from({ length: 20 }), 8, async () => {
    working++
    most = Math.max(most, working)
    await Promise.resolve()
    working--
  })
  expect(most).toBe(8)
})

test('does not let items with different limits wait for each other', async () => {
  const working = new Map<number, number>()
  const most = new Map<number, number>()
  const limitOf = (index: number): number => (index % 2 === 0 ? 2 : 5)
  const results = await mapBounded([...Array(20).keys()], limitOf, async (index) => {
    const limit = limitOf(index)
    working.set(limit, (working.get(limit) ?? 0) + 1)
    most.set(limit, Math.max(most.get(limit) ?? 0, working.get(limit) ?? 0))
    await Promise.resolve()
    working.set(limit, (working.get(limit) ?? 0) - 1)
    return index
  })
  expect(results).toEqual([...Array(20).keys()])
  expect(Object.fromEntries(most)).toEqual({ 2: 2, 5: 5 })
})

test('starts no further item after a failure, and rejects with the first failure', async () => {
  const started: number[] = []
  const results = mapBounded([0, 1, 2, 3, 4], 2, async (index) => {
    started.push(index)
    await Promise.resolve()
    throw new Error(`item ${index}`)
  })
  await expect(results).rejects.toThrow('item 0')
  expect(started).toEqual([0, 1])
})
