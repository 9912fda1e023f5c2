import { commandOptionsFrom, ensureInstalled, UserError } from '../cli.ts'
import { CLIENTS, EXTENSIONS, planFor } from './clients.ts'
import type { ClientVersion } from './clients.ts'
import {
  beyondLines,
  inapplicableLine,
  summariesFrom,
  summaryLines,
  verdictLine,
} from './report.ts'
import type { ScenarioResult } from './report.ts'
import { REVISIONS } from './revisions.ts'
import type { Revision } from './revisions.ts'
import { runAll } from './run-all.ts'
import { runClientScenario } from './run-client-scenario.ts'
import type { ClientScenario } from './run-client-scenario.ts'
import { requiredScenarios } from './required-scenarios.ts'
import type { Scenario } from './required-scenarios.ts'
import { SIDES } from './scenario-list.ts'
import type { Side } from './scenario-list.ts'
import { BEYOND, planLines, serverPlanFor } from './server/server-plan.ts'
import type { ServerScenario } from './server/run-server-scenario.ts'
import type { Verdict } from './verdict.ts'

const HELP = `Usage: pnpm conformance [options]

Runs the official MCP conformance suite, every scenario that a revision requires and those of the authorization
extensions, one at a time. Client scenarios run the Client of SDK v1 and v2 on our transport; server scenarios run
a gateway, with agents or with a fixture server behind it. Scenarios that a client cannot run are listed with the
reason. Exits with 1 unless all of them pass. Needs no network.

Options
  --side <side>       only this end of a connection (${SIDES.join(', ')})
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
        side: { type: 'string', multiple: true, default: [...SIDES] },
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
  const sides = values.side.map(sideFrom)
  const clients = values.client.map(clientFrom)
  const choice = { revisions: values.revision.map(revisionFrom), names: values.scenario }
  await ensureInstalled()
  const clientRuns = sides.includes('client') ? await clientRunsOf(choice, clients) : []
  const extensions = EXTENSIONS.filter((one) => sides.includes('client') && isChosen(choice, one))
  // How a client negotiates does not matter there.
  const extensionRuns = planFor(clients, extensions).runs.filter(
    ({ subject }) => subject !== 'v2-modern',
  )
  const serverRuns = sides.includes('server') ? await serverRunsOf(choice) : []
  const beyond = sides.includes('server') ? BEYOND.filter((one) => isChosen(choice, one)) : []
  for (const line of planLines(beyond)) console.log(`${line} (not required)`)
  checkNames(choice, [...clientRuns, ...extensionRuns, ...serverRuns, ...beyond])
  const results: readonly ScenarioResult[] = [
    ...(await runAll(clientRuns, { jobs, run: runClientScenario, onResult: tell })),
    ...(await runAll(serverRuns, { jobs, run: runServer, onResult: tell })),
  ]
  const extensionResults = await runAll(extensionRuns, {
    jobs,
    run: runClientScenario,
    onResult: tell,
  })
  const more: readonly ScenarioResult[] = [
    ...extensionResults,
    ...(await runAll(beyond, { jobs, run: runServer, onResult: tell })),
  ]
  console.log(summaryLines(results))
  if (more.length > 0) console.log(beyondLines(more))
  if (values.json) {
    const summaries = summariesFrom(results)
    console.log(JSON.stringify({ ...summaries, extensions: summariesFrom(extensionResults) }))
  }
  return [...results, ...more].every(({ isPassed }) => isPassed) ? 0 : 1
}

/** Loaded only then, because it needs what was installed. */
async function runServer(scenario: ServerScenario): Promise<Verdict> {
  const { runServerScenario } = await import('./server/run-server-scenario.ts')
  return runServerScenario(scenario)
}

function tell(result: ScenarioResult): void {
  console.log(verdictLine(result))
}

/** What was chosen of all that is required. */
interface Choice {
  readonly revisions: readonly Revision[]
  /** @default all */
  readonly names: readonly string[] | undefined
}

async function clientRunsOf(
  choice: Choice,
  clients: readonly ClientVersion[],
): Promise<readonly ClientScenario[]> {
  const all = (
    await Promise.all(choice.revisions.map((revision) => requiredScenarios('client', revision)))
  ).flat()
  const { runs, inapplicable } = planFor(
    clients,
    all.filter((scenario) => isChosen(choice, scenario)),
  )
  for (const one of inapplicable) console.log(inapplicableLine(one))
  return runs
}

/** The lists are always checked whole, whatever was chosen of them. */
async function serverRunsOf(choice: Choice): Promise<readonly ServerScenario[]> {
  const all = await Promise.all(REVISIONS.map((revision) => requiredScenarios('server', revision)))
  const runs = serverPlanFor(all.flat()).filter((scenario) => isChosen(choice, scenario))
  for (const line of planLines(runs)) console.log(line)
  return runs
}

function isChosen({ revisions, names }: Choice, { revision, name }: Scenario): boolean {
  return revisions.includes(revision) && (names?.includes(name) ?? true)
}

function checkNames({ revisions, names }: Choice, runs: readonly Scenario[]): void {
  const unknown = names?.find((name) => runs.every((scenario) => scenario.name !== name))
  if (unknown !== undefined) {
    throw new UserError(`${revisions.join(' and ')} has no required scenario "${unknown}"`)
  }
}

function sideFrom(text: string): Side {
  const side = SIDES.find((known) => known === text)
  if (side === undefined) {
    throw new UserError(`There is no side "${text}": there are ${SIDES.join(' and ')}`)
  }
  return side
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
