import { expect, test } from 'vitest'
import { percentile } from './percentile.ts'

const hundred = Float64Array.from({ length: 100 }, (_, index) => 100 - index)

test('is the smallest value that so many do not exceed', () => {
  expect(percentile(hundred, 0.99)).toBe(99)
  expect(percentile(hundred, 0.5)).toBe(50)
  expect(percentile(hundred, 1)).toBe(100)
  expect(percentile(hundred, 0)).toBe(1)
  expect(percentile(Float64Array.of(7), 0.99)).toBe(7)
})

test('leaves the values in their order', () => {
  percentile(hundred, 0.99)
  expect(hundred[0]).toBe(100)
})

test('of nothing there is none', () => {
  expect(() => percentile(new Float64Array(), 0.99)).toThrow(RangeError)
  expect(() => percentile(hundred, 99)).toThrow(RangeError)
})
