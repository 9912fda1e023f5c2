import { expect, test } from 'vitest'
import { comparedFigure, median, plainFigure, table } from './figure.ts'

const ours = { name: 'ours/rate', unit: 'calls per second', values: [400, 900, 500] }
const theirs = { name: 'theirs/rate', unit: 'calls per second', values: [100, 100, 250] }

test('compares two figures round by round, and judges the ratio', () => {
  expect(comparedFigure(ours, theirs, { atLeast: 4 })).toEqual({
    name: 'ours/rate',
    unit: 'calls per second',
    value: 500,
    min: 400,
    max: 900,
    ratioTo: 'theirs/rate',
    ratio: 4,
    bar: '≥ 4',
    isMet: true,
  })
})

test('judges the value of a figure that is not compared', () => {
  const figure = plainFigure({ name: 'resume', unit: 'POSTs', values: [2] }, { atMost: 1 })
  expect(figure).toMatchObject({ value: 2, bar: '≤ 1', isMet: false })
})

test('shows a missed bar in the table', () => {
  const figure = plainFigure({ name: 'resume', unit: 'POSTs', values: [2] }, { atMost: 1 })
  const [head, row] = table([figure]).split('\n')
  expect(head).toMatch(/^figure {2}value {2}min/)
  expect(row).toMatch(/^resume +2 +2 +2 +POSTs +≤ 1 +NOT MET$/)
})

test('takes the middle value as the median, or the mean of the two in the middle', () => {
  expect(median([9, 1, 2])).toBe(2)
  expect(median([9, 1, 2, 4])).toBe(3)
  expect(() => median([])).toThrow(RangeError)
})
