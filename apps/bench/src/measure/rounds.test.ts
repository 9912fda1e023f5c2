import { expect, test } from 'vitest'
import { plainFigure } from './figure.ts'
import { compareInTurns, steadyRounds } from './rounds.ts'

async function taken(
  costs: readonly number[],
): Promise<{ steady: readonly number[]; attempts: number }> {
  let attempts = 0
  const take = async (attempt: number): Promise<number> => {
    attempts = attempt
    return costs[attempt - 1] ?? Number.NaN
  }
  const steady = await steadyRounds(take, { wanted: 5, control: (cost) => cost })
  return { steady, attempts }
}

test('takes as many rounds as wanted on a quiet machine', async () => {
  expect(await taken([10, 11, 9, 10, 12])).toEqual({ steady: [10, 11, 9, 10, 12], attempts: 5 })
})

test('replaces a round in which the control was far from its median', async () => {
  expect(await taken([10, 31, 9, 10, 11, 10])).toEqual({ steady: [10, 9, 10, 11, 10], attempts: 6 })
})

test('leaves out a first round that turns out to be unusual', async () => {
  expect(await taken([20, 10, 10, 10, 11, 10])).toEqual({
    steady: [10, 10, 10, 11, 10],
    attempts: 6,
  })
})

test('gives up after twice as many rounds on a machine that is never quiet', async () => {
  const costs = [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120]
  const { steady, attempts } = await taken(costs)
  expect(attempts).toBe(10)
  expect(steady.length).toBeLessThan(5)
})

test('measures contenders in turns, and adds the turns of a round', async () => {
  const order: string[] = []
  const { figures, invalid } = await compareInTurns(
    {
      label: 'test',
      names: ['a', 'b'],
      turns: 2,
      sum: (costs: readonly number[]) => costs.reduce((total, cost) => total + cost, 0),
      measure: async (name) => order.push(name) && (name === 'a' ? 1 : 3),
      control: ({ a }) => a,
      figures: (rounds) =>
        rounds.map(({ a, b }) => plainFigure({ name: `${a} ${b}`, unit: '', values: [0] })),
    },
    { rounds: 5, progress: () => {} },
  )
  expect(order.join('')).toBe('abab'.repeat(5))
  expect(figures.map(({ name }) => name)).toEqual(Array.from({ length: 5 }, () => '2 6'))
  expect(invalid).toEqual([])
})

test('leaves out the figures when too few rounds were steady', async () => {
  let cost = 1
  const { figures, invalid } = await compareInTurns(
    {
      label: 'noise',
      names: ['a'],
      measure: async () => (cost *= 2),
      control: ({ a }) => a,
      figures: () => [plainFigure({ name: 'a', unit: '', values: [0] })],
    },
    { rounds: 5, progress: () => {} },
  )
  expect(figures).toEqual([])
  expect(invalid[0]).toMatch(/^only \d rounds of noise had a steady control$/)
})
