import { expect, test } from 'vitest'

import { editDistance, nearestWord } from './nearest-word.ts'

test.each([
  ['', '', 0],
  ['port', 'port', 0],
  ['prot', 'port', 1],
  ['por', 'port', 1],
  ['kitten', 'sitting', 3],
])('returns the edit distance of %j and %j: %d', (a, b, distance) => {
  expect(editDistance(a, b)).toBe(distance)
  expect(editDistance(b, a)).toBe(distance)
})

test.each([
  ['timeout_ms', 'timeoutMs'],
  ['TimeoutMS', 'timeoutMs'],
  ['agent', 'agents'],
  ['time', 'timeoutMs'],
  ['tim', undefined],
  ['frobnicate', undefined],
])('returns for %s the word %s', (key, expected) => {
  expect(nearestWord(key, ['agents', 'timeoutMs', 'tools'])).toBe(expected)
})
