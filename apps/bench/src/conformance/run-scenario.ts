import { checksFrom, failedChecks, hasSucceeded } from './checks.ts'
import type { ClientKind } from './client/suite-client.ts'
import type { Scenario } from './required-scenarios.ts'
import { runSuite } from './suite.ts'

const COMMAND = 'node --conditions=mcp-source src/conformance/client.ts'

/** A scenario, and the client that is to act in it. */
export interface ClientScenario extends Scenario {
  readonly client: ClientKind
}

export interface ScenarioResult extends ClientScenario {
  readonly isPassed: boolean
  /** Why not: failed checks, or what the client said. */
  readonly reasons: readonly string[]
}

/**
 * Runs one scenario by itself. Only then does the suite count a client that crashes, times out or is
 * warned about; where it runs many, it counts failed checks alone.
 */
export async function runScenario(scenario: ClientScenario): Promise<ScenarioResult> {
  const { exitCode, stdout, stderr } = await runSuite([
    'client',
    '--command',
    `${COMMAND} ${scenario.client}`,
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
