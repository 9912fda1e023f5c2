import { expect, test } from 'vitest'
import { formatAge, formatBytes } from './client-commands.ts'
import { parseDuration } from './program.ts'

test.each([
  [-5, '0 s'],
  [999, '0 s'],
  [59_999, '59 s'],
  [185_000, '3 min'],
  [7_199_999, '1 h'],
  [86_400_000 * 30, '30 d'],
])('formats %i ms as %s', (ms, text) => {
  expect(formatAge(ms)).toBe(text)
})

test.each([
  [0, '0 B'],
  [1023, '1023 B'],
  [1536, '1.5 KiB'],
])('formats %i bytes as %s', (bytes, text) => {
  expect(formatBytes(bytes)).toBe(text)
})

test.each([
  ['90s', 90_000],
  ['15m', 900_000],
  ['12h', 43_200_000],
  ['30d', 2_592_000_000],
])('parses %s as %i ms', (text, ms) => {
  expect(parseDuration(text)).toBe(ms)
})

test.each(['', '0s', '30', 'd', '-1d', '1.5h', '1w', '9999999d'])('refuses the time %j', (text) => {
  expect(() => parseDuration(text)).toThrow('It must be a time such as 90s')
})
