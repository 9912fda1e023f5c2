import type { ClientKind } from './client/suite-client.ts'
import type { Inapplicable } from './clients.ts'
import type { Scenario } from './required-scenarios.ts'
import type { TargetKind } from './server/target-kind.ts'
import type { Verdict } from './verdict.ts'

/** By revision: how many passed, and the names of those that did not. */
export type Summary = Readonly<
  Record<string, { readonly passed: number; readonly failed: readonly string[] }>
>

type Subject = ClientKind | TargetKind

/** What became of a scenario, and of what. */
export interface ScenarioResult extends Scenario, Verdict {
  readonly subject: Subject
}

/** What each client is called where programs read it, and all servers together. */
const KEYS: Readonly<Record<Subject, string>> = {
  v1: 'client',
  v2: 'clientV2',
  'v2-modern': 'clientV2Modern',
  agents: 'server',
  sampling: 'server',
  fixture: 'server',
}

const NAMES: Readonly<Record<Subject, string>> = {
  v1: 'Client of SDK v1',
  v2: 'Client of SDK v2',
  'v2-modern': 'Client of SDK v2, negotiating by itself',
  agents: 'Gateway with agents',
  sampling: 'Gateway with agents and a tool that needs sampling',
  fixture: 'Gateway with the fixture server behind it',
}

/** One summary for each client that was run, and one for the server. */
export function summariesFrom(
  results: readonly ScenarioResult[],
): Readonly<Record<string, Summary>> {
  const bySubject = Object.groupBy(results, ({ subject }) => KEYS[subject])
  return Object.fromEntries(
    Object.entries(bySubject).map(([key, all = []]) => [key, summaryFrom(all)]),
  )
}

export function verdictLine({
  subject,
  revision,
  name,
  isPassed,
  reasons,
}: ScenarioResult): string {
  const verdict = `${isPassed ? 'passed' : 'FAILED'}  ${subject.padEnd(9)}  ${revision}  ${name}`
  return [
    verdict,
    ...reasons.map((reason) => `          ${reason.replaceAll('\n', '\n          ')}`),
  ].join('\n')
}

export function inapplicableLine({ subject, revision, name, reason }: Inapplicable): string {
  return `not run ${subject.padEnd(9)}  ${revision}  ${name}\n          ${reason}`
}

export function summaryLines(results: readonly ScenarioResult[]): string {
  const bySubject = Object.entries(Object.groupBy(results, ({ subject }) => NAMES[subject]))
  return bySubject
    .flatMap(([name, all = []]) => ['', name, ...revisionLines(summaryFrom(all))])
    .join('\n')
}

/** Of scenarios that no revision requires. */
export function beyondLines(results: readonly ScenarioResult[]): string {
  return ['', 'Beyond what is required', ...revisionLines(summaryFrom(results))].join('\n')
}

function revisionLines(summary: Summary): readonly string[] {
  return Object.entries(summary).map(
    ([revision, { passed, failed }]) =>
      `${revision}  ${passed} of ${passed + failed.length} passed`,
  )
}

function summaryFrom(results: readonly ScenarioResult[]): Summary {
  const byRevision = Object.groupBy(results, ({ revision }) => revision)
  const entries = Object.entries(byRevision).map(([revision, all]) => {
    const failed = all.filter(({ isPassed }) => !isPassed).map(({ name }) => name)
    return [revision, { passed: all.length - failed.length, failed }] as const
  })
  return Object.fromEntries(entries)
}
