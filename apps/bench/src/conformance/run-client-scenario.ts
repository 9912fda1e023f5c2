import type { ClientKind } from './client/suite-client.ts'
import type { Scenario } from './required-scenarios.ts'
import { runSuite } from './suite.ts'
import { verdictFrom } from './verdict.ts'
import type { Verdict } from './verdict.ts'

const COMMAND = 'node --conditions=mcp-source src/conformance/client.ts'

/** A scenario, and the client that is to act in it. */
export interface ClientScenario extends Scenario {
  readonly subject: ClientKind
  /** The suite runs scenarios of extensions for a revision only if it is forced to. */
  readonly isExtension?: boolean
}

/**
 * Runs one scenario by itself. Only then does the suite count a client that crashes, times out or is
 * warned about; where it runs many, it counts failed checks alone.
 */
export async function runClientScenario(scenario: ClientScenario): Promise<Verdict> {
  const command = `${COMMAND} ${scenario.subject}`
  const { name, revision, isExtension = false } = scenario
  return verdictFrom(
    await runSuite([
      'client',
      '--command',
      command,
      '--scenario',
      name,
      '--spec-version',
      revision,
      '--verbose',
      ...(isExtension ? ['--force'] : []),
    ]),
  )
}
