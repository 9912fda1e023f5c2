import type { Scenario } from '../required-scenarios.ts'
import { runSuite } from '../suite.ts'
import { verdictFrom } from '../verdict.ts'
import type { Verdict } from '../verdict.ts'
import { startTarget } from './target.ts'
import type { TargetKind } from './target-kind.ts'

/** A scenario, and what it is run against. */
export interface ServerScenario extends Scenario {
  readonly subject: TargetKind
}

/** Runs one scenario by itself, against a target of its own: what one changes, no other sees. */
export async function runServerScenario({
  subject,
  name,
  revision,
}: ServerScenario): Promise<Verdict> {
  await using target = await startTarget(subject)
  const { url } = target
  return verdictFrom(
    await runSuite([
      'server',
      '--url',
      url,
      '--scenario',
      name,
      '--spec-version',
      revision,
      '--verbose',
    ]),
  )
}
