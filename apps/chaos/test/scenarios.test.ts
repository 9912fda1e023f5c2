import { expect, test } from 'vitest'
import { runScenario, scenarios } from '../src/scenarios.ts'

// `pnpm chaos --short` runs them with seed 1.
test.each(scenarios)('$name: $promise', async ({ run }) => {
  await expect(run(2)).resolves.toBeUndefined()
})

test('reports a scenario that holds and one that is broken', async () => {
  const holds = { name: 'holds', promise: 'It holds.', run: async () => {} }
  const broken = { ...holds, name: 'broken', run: () => Promise.reject(new Error('ran twice')) }
  const reports = [await runScenario(holds, 7), await runScenario(broken, 7)]
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
