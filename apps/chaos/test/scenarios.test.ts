import { describe, expect, test } from 'vitest'
import { runScenarios, scenarios } from '../src/scenarios.ts'
import type { ScenarioReport } from '../src/scenarios.ts'

describe.each(scenarios)('$name', ({ promise, run }) => {
  test.each([1, 2])(`${promise} (seed %i)`, async (seed) => {
    await expect(run(seed)).resolves.toBeUndefined()
  })
})

test('reports a scenario that holds and one that is broken', async () => {
  const holds = { name: 'holds', promise: 'It holds.', run: async () => {} }
  const broken = { ...holds, name: 'broken', run: () => Promise.reject(new Error('ran twice')) }
  const reports: ScenarioReport[] = []
  for await (const report of runScenarios([holds, broken], 7)) reports.push(report)
  const ms = expect.any(Number)
  expect(reports).toEqual([
    { name: 'holds', ok: true, ms, repeat: 'pnpm chaos --scenario holds --seed 7' },
    {
      name: 'broken',
      ok: false,
      ms,
      error: 'ran twice',
      repeat: 'pnpm chaos --scenario broken --seed 7',
    },
  ])
})

test('gives each scenario a name of its own', () => {
  expect(new Set(scenarios.map(({ name }) => name)).size).toBe(scenarios.length)
})
