import { expect, test } from 'vitest'
import { countOf, postsOf } from './counts.ts'

test('what was posted is told apart from other HTTP methods', () => {
  const counts = { GET: 1, DELETE: 1, initialize: 1, 'tools/call': 2 }
  expect(postsOf(counts)).toBe(3)
  expect(countOf(counts, 'tools/call')).toBe(2)
  expect(countOf(counts, 'ping')).toBe(0)
  expect(() => postsOf(undefined)).toThrow(TypeError)
})
