import { commandOptionsFrom } from '../command-options.ts'
import { ensureInstalled } from '../install.ts'
import { UserError } from '../user-error.ts'
import { CLIENTS, planFor } from './clients.ts'
import type { ClientVersion } from './clients.ts'
import { inapplicableLine, summariesFrom, summaryLines, verdictLine } from './report.ts'
import { REVISIONS } from './revisions.ts'
import type { Revision } from './revisions.ts'
import { runAll } from './run-all.ts'
import { requiredScenarios } from './required-scenarios.ts'
import type { Scenario } from './required-scenarios.ts'

const HELP = `Usage: pnpm conformance [options]

Runs the official MCP conformance suite against the SDK's own Client, v1 and v2, on our transport: every
client scenario that a revision requires, one at a time. What a client cannot be run with is listed with
its reason. Exits with 1 unless all of them pass. Needs no network.

Options
  --client <version>  only this version of the SDK; may be given again (v1, v2)
  --revision <date>   only this revision; may be given again (${REVISIONS.join(', ')})
  --scenario <name>   only this scenario; may be given again
  --jobs <n>          how many run at the same time (default: 2)
  --json              print one JSON object as the last line
  --help              this text`

/** `pnpm conformance`. Resolves to the exit code. */
export async function conformance(args: readonly string[]): Promise<number> {
  const { values } = commandOptionsFrom(
    {
      args: [...args],
      options: {
        help: { type: 'boolean', short: 'h', default: false },
        json: { type: 'boolean', default: false },
        jobs: { type: 'string', default: '2' },
        client: { type: 'string', multiple: true, default: [...CLIENTS] },
        revision: { type: 'string', multiple: true, default: [...REVISIONS] },
        scenario: { type: 'string', multiple: true },
      },
    },
    'conformance',
  )
  if (values.help) {
    console.log(HELP)
    return 0
  }
  const jobs = jobsFrom(values.jobs)
  const clients = values.client.map(clientFrom)
  const revisions = values.revision.map(revisionFrom)
  await ensureInstalled()
  const scenarios = await chosenScenarios(revisions, values.scenario)
  const { runs, inapplicable } = planFor(clients, scenarios)
  for (const one of inapplicable) console.log(inapplicableLine(one))
  const results = await runAll(runs, {
    jobs,
    onResult: (result) => console.log(verdictLine(result)),
  })
  console.log(summaryLines(results))
  if (values.json) console.log(JSON.stringify(summariesFrom(results)))
  return results.every(({ isPassed }) => isPassed) ? 0 : 1
}

async function chosenScenarios(
  revisions: readonly Revision[],
  names: readonly string[] | undefined,
): Promise<readonly Scenario[]> {
  const all = (await Promise.all(revisions.map(requiredScenarios))).flat()
  const chosen = all.filter(({ name }) => names?.includes(name) ?? true)
  const unknown = names?.find((name) => all.every((scenario) => scenario.name !== name))
  if (unknown !== undefined) {
    throw new UserError(`${revisions.join(' and ')} has no required client scenario "${unknown}"`)
  }
  return chosen
}

function clientFrom(text: string): ClientVersion {
  const client = CLIENTS.find((known) => known === text)
  if (client === undefined) {
    throw new UserError(`There is no client "${text}": there are ${CLIENTS.join(' and ')}`)
  }
  return client
}

function revisionFrom(text: string): Revision {
  const revision = REVISIONS.find((known) => known === text)
  if (revision === undefined) {
    throw new UserError(`There is no revision "${text}": there are ${REVISIONS.join(', ')}`)
  }
  return revision
}

function jobsFrom(text: string): number {
  const jobs = Number(text)
  if (!Number.isInteger(jobs) || jobs < 1) throw new UserError('--jobs takes a number from 1 on')
  return jobs
}
