import { describe, expect, test } from 'vitest'
import { runScenarios, scenarios } from '../src/scenarios.ts'

describe.each(scenarios)('$name', ({ promise, run }) => {
  test.each([1, 2])(`${promise} (seed %i)`, async (seed) => {
    await expect(run(seed)).resolves.toBeUndefined()
  })
})

test('reports each scenario by its name', async () => {
  const [first] = scenarios
  const reports = await runScenarios([String(first?.name)])
  expect(reports).toEqual([{ name: first?.name, ok: true, ms: expect.any(Number) }])
  expect(new Set(scenarios.map(({ name }) => name)).size).toBe(scenarios.length)
})

test('rejects an unknown name and lists the known ones', async () => {
  await expect(runScenarios(['no-such'])).rejects.toThrow(/no scenario "no-such".*polled-answer/)
})
