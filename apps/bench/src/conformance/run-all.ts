import type { Scenario } from './required-scenarios.ts'
import type { Verdict } from './verdict.ts'

/** What became of a scenario. */
export type Result<Run extends Scenario> = Run & Verdict

export interface RunAllOptions<Run extends Scenario> {
  /** How many run at the same time. */
  readonly jobs: number
  readonly run: (scenario: Run) => Promise<Verdict>
  /** Told each result when it is there, in whatever order they come. */
  readonly onResult: (result: Result<Run>) => void
}

/** Runs the scenarios, a few at a time; the results are in the order of the scenarios. */
export async function runAll<Run extends Scenario>(
  scenarios: readonly Run[],
  { jobs, run, onResult }: RunAllOptions<Run>,
): Promise<readonly Result<Run>[]> {
  const results = new Map<Run, Result<Run>>()
  const waiting = scenarios.values()
  async function work(): Promise<void> {
    for (const scenario of waiting) {
      const result = { ...scenario, ...(await run(scenario)) }
      results.set(scenario, result)
      onResult(result)
    }
  }
  await Promise.all(Array.from({ length: jobs }, work))
  return scenarios.flatMap((scenario) => results.get(scenario) ?? [])
}
