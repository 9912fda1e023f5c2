import { expect, test } from 'vitest'
import { comparedFigure, plainFigure } from './figure-of.ts'

const ours = { name: 'ours/rate', unit: 'calls per second', values: [400, 900, 500] }
const theirs = { name: 'theirs/rate', unit: 'calls per second', values: [100, 100, 250] }

test('a ratio is taken round by round, and is what the bar is for', () => {
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

test('a figure that stands alone has a bar for its value', () => {
  const figure = plainFigure({ name: 'resume', unit: 'POSTs', values: [2] }, { atMost: 1 })
  expect(figure).toMatchObject({ value: 2, bar: '≤ 1', isMet: false })
})
