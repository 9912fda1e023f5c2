import { UserError } from '../user-error.ts'
import { namesFor, requiredNames } from './scenario-list.ts'
import type { Revision } from './revisions.ts'
import { runSuite } from './suite.ts'

/** One client scenario of the suite, at the wire of one revision. */
export interface Scenario {
  readonly revision: Revision
  readonly name: string
}

/** How many there are, so that a list that cannot be read is never taken for one that is done. */
const COUNTS: Readonly<Record<Revision, number>> = {
  '2025-03-26': 2,
  '2025-06-18': 5,
  '2025-11-25': 18,
  '2026-07-28': 32,
}

/** The suite has no requirement set for these: there, all its client scenarios count. */
const WITHOUT_SET: readonly Revision[] = ['2025-03-26', '2025-06-18']

/**
 * The client scenarios that a revision requires, as the suite itself lists them.
 *
 * @throws UserError if there are more or fewer than there should be.
 */
export async function requiredScenarios(revision: Revision): Promise<readonly Scenario[]> {
  const names = WITHOUT_SET.includes(revision)
    ? namesFor((await runSuite(['list', '--client'])).stdout, revision)
    : requiredNames((await runSuite(['list', '--requirements', revision])).stdout)
  if (names.length !== COUNTS[revision]) {
    throw new UserError(
      `The suite lists ${names.length} client scenarios for ${revision}, not ${COUNTS[revision]}: is it another version?`,
    )
  }
  return names.map((name) => ({ revision, name }))
}
