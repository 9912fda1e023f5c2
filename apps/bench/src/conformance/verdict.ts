import { checksFrom, failedChecks, hasSucceeded } from './checks.ts'
import type { SuiteOutput } from './suite.ts'

export interface Verdict {
  readonly isPassed: boolean
  /** Why not: failed checks, or what was said last. */
  readonly reasons: readonly string[]
}

/** What came of one scenario that was run by itself, with `--verbose`: the checks are JSON on stdout. */
export function verdictFrom({ exitCode, stdout, stderr }: SuiteOutput): Verdict {
  const checks = checksFrom(stdout)
  const reasons = failedChecks(checks)
  // A scenario that is skipped, or checks nothing, ends with 0 as well.
  if (exitCode === 0 && hasSucceeded(checks) && reasons.length === 0) {
    return { isPassed: true, reasons: [] }
  }
  return {
    isPassed: false,
    reasons: reasons.length > 0 ? reasons : [lastWords(stderr === '' ? stdout : stderr)],
  }
}

function lastWords(output: string): string {
  return output.trim().slice(-2000)
}
