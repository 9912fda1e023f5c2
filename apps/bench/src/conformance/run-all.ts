import { runScenario } from './run-scenario.ts'
import type { ClientScenario, ScenarioResult } from './run-scenario.ts'

export interface RunAllOptions {
  /** How many run at the same time. */
  readonly jobs: number
  /** Told each result when it is there, in whatever order they come. */
  readonly onResult: (result: ScenarioResult) => void
}

/** Runs the scenarios, a few at a time; the results are in the order of the scenarios. */
export async function runAll(
  scenarios: readonly ClientScenario[],
  { jobs, onResult }: RunAllOptions,
): Promise<readonly ScenarioResult[]> {
  const results = new Map<ClientScenario, ScenarioResult>()
  const waiting = scenarios.values()
  async function work(): Promise<void> {
    for (const scenario of waiting) {
      const result = await runScenario(scenario)
      results.set(scenario, result)
      onResult(result)
    }
  }
  await Promise.all(Array.from({ length: jobs }, work))
  return scenarios.flatMap((scenario) => results.get(scenario) ?? [])
}
