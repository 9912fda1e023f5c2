import type { ScenarioResult } from './run-scenario.ts'

/** By revision: how many passed, and the names of those that did not. */
export type Summary = Readonly<
  Record<string, { readonly passed: number; readonly failed: readonly string[] }>
>

export function summaryFrom(results: readonly ScenarioResult[]): Summary {
  const byRevision = Object.groupBy(results, ({ revision }) => revision)
  const entries = Object.entries(byRevision).map(([revision, all]) => {
    const failed = all.filter(({ isPassed }) => !isPassed).map(({ name }) => name)
    return [revision, { passed: all.length - failed.length, failed }] as const
  })
  return Object.fromEntries(entries)
}

export function verdictLine({ revision, name, isPassed, reasons }: ScenarioResult): string {
  const verdict = `${isPassed ? 'passed' : 'FAILED'}  ${revision}  ${name}`
  return [
    verdict,
    ...reasons.map((reason) => `          ${reason.replaceAll('\n', '\n          ')}`),
  ].join('\n')
}

export function summaryLines(summary: Summary): string {
  const rows = Object.entries(summary).map(
    ([revision, { passed, failed }]) =>
      `${revision}  ${passed} of ${passed + failed.length} passed`,
  )
  return ['', ...rows].join('\n')
}
