import { expect, test } from 'vitest'
import { byteRangeFrom } from './byte-range.ts'

test.each([
  ['bytes=0-0', { first: 0, last: 0 }],
  ['bytes=2-5', { first: 2, last: 5 }],
  ['bytes=2-', { first: 2, last: 9 }],
  ['bytes=-3', { first: 7, last: 9 }],
  ['bytes=-30', { first: 0, last: 9 }],
  ['bytes=9-99', { first: 9, last: 9 }],
  ['bytes=10-', 'unsatisfiable'],
  ['bytes=-0', 'unsatisfiable'],
  ['bytes=5-2', undefined],
  ['bytes=0-1,3-4', undefined],
  ['bytes=-', undefined],
  ['items=0-1', undefined],
  ['bytes=a-b', undefined],
  [null, undefined],
])('%s of ten bytes', (header, range) => {
  expect(byteRangeFrom(header, 10)).toEqual(range)
})

test('of nothing there is no range', () => {
  expect(byteRangeFrom('bytes=0-0', 0)).toBe('unsatisfiable')
  expect(byteRangeFrom('bytes=-1', 0)).toBe('unsatisfiable')
})
