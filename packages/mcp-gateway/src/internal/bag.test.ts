import { expect, test } from 'vitest'

import { Bag } from './bag.ts'

test('has exactly the items that were added and not removed, in any order of removal', () => {
  const bag = new Bag<{ place: number }>()
  const items = Array.from({ length: 10 }, () => ({ place: -1 }))
  for (const item of items) bag.add(item)
  const left = new Set(items)
  for (const at of [9, 0, 5, 5, 8, 1]) {
    const item = items[at]
    if (!item) throw new Error('There are ten items')
    bag.remove(item)
    left.delete(item)
    expect(new Set(bag.all())).toEqual(left)
    expect(bag.size).toBe(left.size)
  }
  for (const item of left) bag.remove(item)
  expect(bag.all()).toEqual([])
  bag.add(items[0] ?? { place: -1 })
  expect(bag.size).toBe(1)
})
