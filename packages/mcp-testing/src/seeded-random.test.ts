import { expect, test } from 'vitest'
import { seededRandom } from './seeded-random.ts'

const take = (seed: number, count: number): number[] => {
  const random = seededRandom(seed)
  return Array.from({ length: count }, random)
}

test('gives the same numbers for the same seed', () => {
  expect(take(7, 20)).toEqual(take(7, 20))
  expect(take(7, 20)).not.toEqual(take(8, 20))
})

test.each([0, 1, -1, 2 ** 31])('gives numbers in all of [0, 1) for the seed %i', (seed) => {
  const numbers = take(seed, 10_000)
  expect(Math.min(...numbers)).toBeGreaterThanOrEqual(0)
  expect(Math.max(...numbers)).toBeLessThan(1)
  const tenths = new Set(numbers.map((n) => Math.floor(n * 10)))
  expect(tenths.size).toBe(10)
  expect(numbers.reduce((sum, n) => sum + n, 0) / numbers.length).toBeCloseTo(0.5, 1)
})
