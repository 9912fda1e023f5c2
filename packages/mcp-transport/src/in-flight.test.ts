import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { InFlight } from './in-flight.ts'
import type { Linked } from './in-flight.ts'

class Item implements Linked<Item> {
  older: Item | undefined
  newer: Item | undefined
}

function itemsOf(count: number): { inFlight: InFlight<Item>; items: readonly Item[] } {
  const inFlight = new InFlight<Item>()
  const items = Array.from({ length: count }, () => new Item())
  for (const item of items) inFlight.add(item)
  return { inFlight, items }
}

test('whatever is added and removed, in any order, it holds what a Set holds', () => {
  const steps = fc.array(fc.record({ isAdded: fc.boolean(), index: fc.nat({ max: 7 }) }))
  fc.assert(
    fc.property(steps, (given) => {
      const { inFlight, items } = itemsOf(8)
      const expected = new Set(items)
      const indexOf = (item: Item): number => items.indexOf(item)
      for (const { isAdded, index } of given) {
        const item = items[index] as Item
        const wasThere = isAdded ? expected.has(item) : expected.delete(item)
        if (isAdded) expected.add(item)
        const isFound = isAdded ? inFlight.has(item) : inFlight.remove(item)
        if (isAdded) inFlight.add(item)
        expect(isFound).toBe(wasThere)
        expect(inFlight.all().map(indexOf)).toEqual([...expected].map(indexOf))
        expect(items.filter((each) => inFlight.has(each))).toHaveLength(expected.size)
      }
    }),
  )
})

test('what was removed keeps nothing of what was beside it', () => {
  const { inFlight, items } = itemsOf(3)
  for (const item of items) inFlight.remove(item)
  for (const item of items) expect(item).toEqual({ older: undefined, newer: undefined })
})

test('find gives the newest that fits', () => {
  const { inFlight, items } = itemsOf(3)
  expect(inFlight.find((item) => item !== items[2])).toBe(items[1])
  expect(inFlight.find(() => false)).toBeUndefined()
})

test('the list of all is of one moment: removing while going through it skips none', () => {
  const { inFlight, items } = itemsOf(3)
  const seen: number[] = []
  for (const item of inFlight.all()) {
    seen.push(items.indexOf(item))
    for (const each of items) inFlight.remove(each)
  }
  expect(seen).toEqual([0, 1, 2])
})
