import { UserError } from '../cli.ts'
import { namesFor, requiredNames } from './scenario-list.ts'
import type { Side } from './scenario-list.ts'
import type { Revision } from './revisions.ts'
import { runSuite } from './suite.ts'

/** One scenario of the suite, at the wire of one revision. */
export interface Scenario {
  readonly revision: Revision
  readonly name: string
}

/** How many there are, so that a list that cannot be read is never taken for one that is done. */
const COUNTS: Readonly<Record<Side, Readonly<Record<Revision, number>>>> = {
  client: { '2025-03-26': 2, '2025-06-18': 5, '2025-11-25': 18, '2026-07-28': 32 },
  server: { '2025-03-26': 0, '2025-06-18': 0, '2025-11-25': 30, '2026-07-28': 37 },
}

/** The suite has no requirement set for these: there, all its client scenarios count. */
const WITHOUT_SET: readonly Revision[] = ['2025-03-26', '2025-06-18']

/**
 * The scenarios that a revision requires of one side, as the suite itself lists them; none of servers
 * where it has no requirement set.
 *
 * @throws UserError if there are more or fewer than there should be.
 */
export async function requiredScenarios(
  side: Side,
  revision: Revision,
): Promise<readonly Scenario[]> {
  const names = await namesOf(side, revision)
  const count = COUNTS[side][revision]
  if (names.length !== count) {
    throw new UserError(
      `The suite lists ${names.length} ${side} scenarios for ${revision}, not ${count}: is it another version?`,
    )
  }
  return names.map((name) => ({ revision, name }))
}

async function namesOf(side: Side, revision: Revision): Promise<readonly string[]> {
  if (!WITHOUT_SET.includes(revision)) {
    return requiredNames((await runSuite(['list', '--requirements', revision])).stdout, side)
  }
  if (side === 'server') return []
  return namesFor((await runSuite(['list', '--client'])).stdout, revision)
}
