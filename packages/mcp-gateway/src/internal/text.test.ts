import { expect, test } from 'vitest'

import { beginningOf, excessOf, shortened } from './text.ts'

test.each([0, 1, 2, 3, 4])('cuts a text at %i bytes after a whole character', (bytes) => {
  const beginning = beginningOf('ééé', bytes, (text) => Buffer.byteLength(text))
  expect(beginning.length).toBeLessThanOrEqual(bytes / 2)
  expect('ééé'.startsWith(beginning)).toBe(true)
})

test.each([
  ['abc', 'abc'],
  ['abcd', 'ab…'],
  ['a😀b', 'a…'],
])('shortens %j to three UTF-16 units as %j', (text, short) => {
  expect(shortened(text, 3)).toBe(short)
})

const lists = (levels: number): string => '['.repeat(levels) + ']'.repeat(levels)
const numbers = (length: number): string => JSON.stringify(Array.from({ length }, () => 1))

test.each<[what: string, json: string, excess: string | undefined]>([
  ['lists', lists(128), undefined],
  ['too deep lists', lists(129), 'has more than 128 levels'],
  ['a million of lists', lists(1_000_000), 'has more than 128 levels'],
  ['too deep objects', '{"a":'.repeat(129), 'has more than 128 levels'],
  ['lists side by side', `[${'[],'.repeat(1000)}[]]`, undefined],
  ['many numbers', numbers(99_998), undefined],
  ['too many numbers', numbers(100_001), 'has more than 100000 values'],
  ['too many lists', `[${'[],'.repeat(100_000)}[]]`, 'has more than 100000 values'],
  ['signs inside texts', JSON.stringify(['['.repeat(200), ','.repeat(200_000)]), undefined],
  [
    'escaped quotes',
    JSON.stringify([String.raw`\"[`.repeat(200), '\\', '['.repeat(200)]),
    undefined,
  ],
  ['a text without an end', `["${'['.repeat(200)}`, undefined],
  ['a text that ends with an escape', String.raw`["\\", ${lists(128)}`, 'has more than 128 levels'],
])('%s', (_what, json, excess) => {
  expect(excessOf(json)).toBe(excess)
})
