import { expect, test } from 'vitest'

import { beginningOf, shortened } from './text.ts'

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
