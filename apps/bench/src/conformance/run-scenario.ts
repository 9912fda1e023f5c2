import { checksFrom, failedChecks, hasSucceeded } from './checks.ts'
import type { Scenario } from './required-scenarios.ts'
import { runSuite } from './suite.ts'

const CLIENT = 'node --conditions=mcp-source src/conformance/client.ts'

export interface ScenarioResult extends Scenario {
  readonly isPassed: boolean
  /** Why not: failed checks, or what the client said. */
  readonly reasons: readonly string[]
}

/**
 * Runs one scenario by itself. Only then does the suite count a client that crashes, times out or is
 * warned about; where it runs many, it counts failed checks alone.
 */
export async function runScenario(scenario: Scenario): Promise<ScenarioResult> {
  const { exitCode, stdout, stderr } = await runSuite([
    'client',
    '--command',
    CLIENT,
    '--scenario',
    scenario.name,
    '--spec-version',
    scenario.revision,
    '--verbose', // the checks as JSON on stdout
  ])
  const checks = checksFrom(stdout)
  // A scenario that is skipped, or checks nothing, ends with 0 as well.
  if (exitCode === 0 && hasSucceeded(checks)) return { ...scenario, isPassed: true, reasons: [] }
  const reasons = failedChecks(checks)
  return {
    ...scenario,
    isPassed: false,
    reasons: reasons.length > 0 ? reasons : [lastWords(stderr === '' ? stdout : stderr)],
  }
}

function lastWords(output: string): string {
  return output.trim().slice(-2000)
}
