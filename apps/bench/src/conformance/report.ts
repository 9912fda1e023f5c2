import type { ClientKind } from './client/suite-client.ts'
import type { Inapplicable } from './clients.ts'
import type { ScenarioResult } from './run-scenario.ts'

/** By revision: how many passed, and the names of those that did not. */
export type Summary = Readonly<
  Record<string, { readonly passed: number; readonly failed: readonly string[] }>
>

/** What each client is called where programs read it. */
const KEYS: Readonly<Record<ClientKind, string>> = {
  v1: 'client',
  v2: 'clientV2',
  'v2-modern': 'clientV2Modern',
}

const NAMES: Readonly<Record<ClientKind, string>> = {
  v1: 'Client of SDK v1',
  v2: 'Client of SDK v2',
  'v2-modern': 'Client of SDK v2, negotiating by itself',
}

/** One summary for each client that was run. */
export function summariesFrom(
  results: readonly ScenarioResult[],
): Readonly<Record<string, Summary>> {
  const byClient = Object.groupBy(results, ({ client }) => KEYS[client])
  return Object.fromEntries(
    Object.entries(byClient).map(([key, all = []]) => [key, summaryFrom(all)]),
  )
}

export function verdictLine({ client, revision, name, isPassed, reasons }: ScenarioResult): string {
  const verdict = `${isPassed ? 'passed' : 'FAILED'}  ${client.padEnd(9)}  ${revision}  ${name}`
  return [
    verdict,
    ...reasons.map((reason) => `          ${reason.replaceAll('\n', '\n          ')}`),
  ].join('\n')
}

export function inapplicableLine({ client, revision, name, reason }: Inapplicable): string {
  return `not run ${client.padEnd(9)}  ${revision}  ${name}\n          ${reason}`
}

export function summaryLines(results: readonly ScenarioResult[]): string {
  const byClient = Object.entries(Object.groupBy(results, ({ client }) => NAMES[client]))
  return byClient
    .flatMap(([name, all = []]) => ['', name, ...revisionLines(summaryFrom(all))])
    .join('\n')
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
