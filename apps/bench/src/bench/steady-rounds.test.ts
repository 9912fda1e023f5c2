import { expect, test } from 'vitest'
import { steadyRounds } from './steady-rounds.ts'

async function taken(
  costs: readonly number[],
): Promise<{ steady: readonly number[]; attempts: number }> {
  let attempts = 0
  const take = async (attempt: number): Promise<number> => {
    attempts = attempt
    return costs[attempt - 1] ?? Number.NaN
  }
  const steady = await steadyRounds(take, { wanted: 5, within: 0.25, control: (cost) => cost })
  return { steady, attempts }
}

test('a quiet machine gives as many rounds as were wanted', async () => {
  expect(await taken([10, 11, 9, 10, 12])).toEqual({ steady: [10, 11, 9, 10, 12], attempts: 5 })
})

test('a round with a control that is off is left out, and another one is taken', async () => {
  expect(await taken([10, 31, 9, 10, 11, 10])).toEqual({ steady: [10, 9, 10, 11, 10], attempts: 6 })
})

test('rounds that looked odd at first count once most are like them', async () => {
  expect(await taken([20, 10, 10, 10, 11, 10])).toEqual({
    steady: [10, 10, 10, 11, 10],
    attempts: 6,
  })
})

test('a machine that is never quiet ends it after twice as many rounds', async () => {
  const costs = [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120]
  const { steady, attempts } = await taken(costs)
  expect(attempts).toBe(10)
  expect(steady.length).toBeLessThan(5)
})
