import { expect, test } from 'vitest'
import { ageText, bytesText, durationMsFrom } from './amount.ts'

test.each([
  [-5, '0 s'],
  [999, '0 s'],
  [59_999, '59 s'],
  [185_000, '3 min'],
  [7_199_999, '1 h'],
  [86_400_000 * 30, '30 d'],
])('%i ms is %s', (ms, text) => {
  expect(ageText(ms)).toBe(text)
})

test.each([
  [0, '0 B'],
  [1023, '1023 B'],
  [1536, '1.5 KiB'],
])('%i bytes are %s', (bytes, text) => {
  expect(bytesText(bytes)).toBe(text)
})

test.each([
  ['90s', 90_000],
  ['15m', 900_000],
  ['12h', 43_200_000],
  ['30d', 2_592_000_000],
])('%s is %i ms', (text, ms) => {
  expect(durationMsFrom(text)).toBe(ms)
})

test.each(['', '0s', '30', 'd', '-1d', '1.5h', '1w', '9999999d'])('%j is no time', (text) => {
  expect(durationMsFrom(text)).toBeUndefined()
})
