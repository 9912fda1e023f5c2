import { expect, test } from 'vitest'
import { headerValue, mediaType, retryAfterMs } from './response-headers.ts'

const now = (): number => Date.parse('2026-11-20T10:00:00.000Z')

test.each([
  ['seconds', '120', 120_000],
  ['zero', '0', 0],
  ['spaces around', ' 5 ', 5000],
  ['a date', 'Fri, 20 Nov 2026 10:00:07 GMT', 7000],
  ['a date in the past', 'Fri, 20 Nov 2026 09:00:00 GMT', 0],
  ['nonsense', 'soon', undefined],
  ['nothing', undefined, undefined],
])('Retry-After: %s', (_name, value, expected) => {
  expect(retryAfterMs({ 'retry-after': value }, now)).toBe(expected)
})

test.each([
  ['application/json', 'application/json'],
  ['Application/JSON; charset=utf-8', 'application/json'],
  [' text/event-stream ;x', 'text/event-stream'],
  [undefined, ''],
])('media type of %j', (value, expected) => {
  expect(mediaType({ 'content-type': value })).toBe(expected)
})

test('of a repeated header, the first one counts', () => {
  expect(headerValue({ a: ['1', '2'] }, 'a')).toBe('1')
})
