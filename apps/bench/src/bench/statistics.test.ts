import { expect, test } from 'vitest'
import { median, movement, ratios } from './statistics.ts'

test('a median is the middle, or between the two middles', () => {
  expect(median([9, 1, 2])).toBe(2)
  expect(median([9, 1, 2, 4])).toBe(3)
  expect(() => median([])).toThrow(RangeError)
})

test('movement is how much worse the worst was than the best', () => {
  expect(movement([100, 110, 125])).toBe(0.25)
  expect(movement([5])).toBe(0)
})

test('ratios are taken round by round', () => {
  expect(ratios([2, 6], [1, 2])).toEqual([2, 3])
})
