import { SCENARIOS } from './scenarios.ts'
import { SUBJECTS } from './subjects.ts'
import { tenancy } from './tenancy.ts'

/** What became of one fault, by subject. */
export interface ComparedRow {
  readonly scenario: string
  readonly outcomes: Readonly<Record<string, string>>
}

/** The same faults for everybody. Prints a table; nobody passes or fails. */
export async function compare(progress: (text: string) => void): Promise<readonly ComparedRow[]> {
  const rows: ComparedRow[] = []
  for (const { name, run } of SCENARIOS) {
    progress(name)
    const outcomes = SUBJECTS.map(
      async (subject) => [subject.name, await run(subject).catch(failureText)] as const,
    )
    rows.push({ scenario: name, outcomes: Object.fromEntries(await Promise.all(outcomes)) })
  }
  rows.push({
    scenario: 'tenants A, B, then a call of A',
    outcomes: Object.fromEntries(await tenancy()),
  })
  for (const { scenario, outcomes } of rows) {
    console.log(`\n${scenario}`)
    for (const { name } of SUBJECTS) {
      if (outcomes[name] !== undefined) console.log(`  ${name.padEnd(26)}${outcomes[name]}`)
    }
  }
  return rows
}

function failureText(error: unknown): string {
  return `could not be measured: ${error instanceof Error ? error.message : String(error)}`
}
