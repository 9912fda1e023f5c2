import type { Run } from './plan.ts'
import type { Verdict } from './suite.ts'

/** A run, and its result. */
export type RunResult = Run & Verdict

/** Number of passed scenarios and names of failed ones, by revision. */
type Summary = Readonly<
  Record<string, { readonly passed: number; readonly failed: readonly string[] }>
>

/** Names for people, and keys in the JSON, where all servers are one. */
const SUBJECTS: Readonly<Record<Run['subject'], { readonly key: string; readonly name: string }>> =
  {
    v1: { key: 'client', name: 'Client of SDK v1' },
    v2: { key: 'clientV2', name: 'Client of SDK v2' },
    'v2-modern': { key: 'clientV2Modern', name: 'Client of SDK v2, with its own negotiation' },
    'mcp-client': { key: 'mcpClient', name: 'McpClient' },
    agents: { key: 'server', name: 'Gateway with agents' },
    sampling: { key: 'server', name: 'Gateway with agents and a tool that needs sampling' },
    fixture: { key: 'server', name: 'Gateway with the fixture server behind it' },
  }

/** One summary for each client, and one for all servers. */
export function summariesFrom(results: readonly RunResult[]): Readonly<Record<string, Summary>> {
  const byKey = Object.groupBy(results, ({ subject }) => SUBJECTS[subject].key)
  return Object.fromEntries(Object.entries(byKey).map(([key, all = []]) => [key, summaryFrom(all)]))
}

export function verdictLine(result: RunResult): string {
  const { subject, revision, name, isPassed, reasons } = result
  const verdict = `${isPassed ? 'passed' : 'FAILED'}  ${subject.padEnd(10)}  ${revision}  ${name}`
  const indent = '\n          '
  return [verdict, ...reasons.map((reason) => reason.replaceAll('\n', indent))].join(indent)
}

/** One paragraph for each client and server, and one for scenarios that no revision requires. */
export function summaryLines(results: readonly RunResult[]): string {
  const byName = Object.groupBy(results, ({ subject, isRequired }) =>
    isRequired ? SUBJECTS[subject].name : 'Not required',
  )
  return Object.entries(byName)
    .flatMap(([name, all = []]) => ['', name, ...revisionLines(summaryFrom(all))])
    .join('\n')
}

function revisionLines(summary: Summary): readonly string[] {
  return Object.entries(summary).map(
    ([revision, { passed, failed }]) =>
      `${revision}  ${passed} of ${passed + failed.length} passed`,
  )
}

function summaryFrom(results: readonly RunResult[]): Summary {
  const byRevision = Object.groupBy(results, ({ revision }) => revision)
  const entries = Object.entries(byRevision).map(([revision, all]) => {
    const failed = all.filter(({ isPassed }) => !isPassed).map(({ name }) => name)
    return [revision, { passed: all.length - failed.length, failed }] as const
  })
  return Object.fromEntries(entries)
}
