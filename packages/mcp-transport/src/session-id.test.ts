import { expect, test } from 'vitest'
import { isSessionId, shortSessionId } from './session-id.ts'

test.each([
  ['one character', '!', true],
  ['a UUID', '1868a90c-6e1f-4f3a-9c5d-0d2f1b7e3a11', true],
  ['the last visible one', '~', true],
  ['1 KiB', 'a'.repeat(1024), true],
  ['more than 1 KiB', 'a'.repeat(1025), false],
  ['nothing', '', false],
  ['a space', 'a b', false],
  ['a line break', 'a\n', false],
  ['a header injection', 'a\r\nx: y', false],
  ['a letter beyond ASCII', 'sessiön', false],
  ['DEL', '\u007F', false],
  ['a number', 7, false],
  ['undefined', undefined, false],
])('%s', (_name, value, expected) => {
  expect(isSessionId(value)).toBe(expected)
})

test('a short form tells two ids apart, and gives neither away', () => {
  expect(shortSessionId('1868a90c-6e1f-4f3a')).toBe('1868…(18)')
})
