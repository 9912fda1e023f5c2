import { expect, test } from 'vitest'
import { KEYS, pathOf, SEED, valueOf } from './workloads.ts'

test('sends requests to all keys in turn', () => {
  const paths = Array.from({ length: KEYS }, (_, index) => pathOf(index))
  expect(new Set(paths).size).toBe(KEYS)
  expect(pathOf(KEYS)).toBe(paths[0])
})

test('gives all values the same size, and each write another value', () => {
  expect(valueOf(7)).toHaveLength(SEED.length)
  expect(valueOf(7)).not.toBe(valueOf(8))
})
