import { commandOptionsFrom, ensureInstalled, runCommand, UserError } from './cli.ts'
import {
  BEYOND,
  clientPlan,
  CLIENTS,
  EXTENSIONS,
  planLines,
  runClient,
  runServer,
  serverPlan,
} from './conformance/plan.ts'
import type { ClientRun, ClientVersion, ServerRun } from './conformance/plan.ts'
import {
  beyondLines,
  inapplicableLine,
  summariesFrom,
  summaryLines,
  verdictLine,
} from './conformance/report.ts'
import type { ScenarioResult } from './conformance/report.ts'
import { requiredScenarios, REVISIONS, SIDES } from './conformance/suite.ts'
import type { Revision, Scenario, Verdict } from './conformance/suite.ts'

const HELP = `Usage: pnpm conformance [options]

Runs the official MCP conformance suite: every scenario that a revision requires, and those of the authorization
extensions. Client scenarios run the Client of SDK v1 and v2 on our transport; server scenarios run a gateway,
with agents or with a fixture server behind it. Scenarios that a client cannot run are listed with the reason.
Exits with 1 unless all of them pass. Needs no network.

Options
  --side <side>       only this end of a connection (${SIDES.join(', ')})
  --client <version>  only this version of the SDK; repeatable (${CLIENTS.join(', ')})
  --revision <date>   only this revision; repeatable (${REVISIONS.join(', ')})
  --scenario <name>   only this scenario; repeatable
  --jobs <n>          number of scenarios at the same time (default: 2)
  --json              print one JSON object as the last line
  --help              this text`

async function conformance(args: readonly string[]): Promise<number> {
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
  const jobs = Number(values.jobs)
  if (!Number.isInteger(jobs) || jobs < 1) {
    throw new UserError(`--jobs must be an integer of at least 1: ${values.jobs}`)
  }
  const sides = values.side.map((side) => oneOf('--side', SIDES, side))
  const clients = values.client.map((client) => oneOf('--client', CLIENTS, client))
  const revisions = values.revision.map((revision) => oneOf('--revision', REVISIONS, revision))
  const isChosen = ({ revision, name }: Scenario): boolean =>
    revisions.includes(revision) && (values.scenario?.includes(name) ?? true)
  await ensureInstalled()
  const hasClients = sides.includes('client')
  const hasServers = sides.includes('server')
  const clientRuns = hasClients ? await clientRunsOf(clients, revisions, isChosen) : []
  const extensionRuns = hasClients ? clientPlan(clients, EXTENSIONS.filter(isChosen)).runs : []
  const serverRuns = hasServers ? await serverRunsOf(isChosen) : []
  const beyond = hasServers ? BEYOND.filter(isChosen) : []
  for (const line of planLines(beyond)) console.log(`${line} (not required)`)
  const all = [...clientRuns, ...extensionRuns, ...serverRuns, ...beyond]
  const unknown = values.scenario?.find((name) => all.every((run) => run.name !== name))
  if (unknown !== undefined) {
    throw new UserError(`${revisions.join(' and ')} has no required scenario "${unknown}"`)
  }
  const required: readonly ScenarioResult[] = [
    ...(await runAll(clientRuns, jobs, runClient)),
    ...(await runAll(serverRuns, jobs, runServer)),
  ]
  const extensions = await runAll(extensionRuns, jobs, runClient)
  const more: readonly ScenarioResult[] = [
    ...extensions,
    ...(await runAll(beyond, jobs, runServer)),
  ]
  console.log(summaryLines(required))
  if (more.length > 0) console.log(beyondLines(more))
  if (values.json) {
    const summaries = { ...summariesFrom(required), extensions: summariesFrom(extensions) }
    console.log(JSON.stringify(summaries))
  }
  return [...required, ...more].every(({ isPassed }) => isPassed) ? 0 : 1
}

async function clientRunsOf(
  clients: readonly ClientVersion[],
  revisions: readonly Revision[],
  isChosen: (scenario: Scenario) => boolean,
): Promise<readonly ClientRun[]> {
  const all = await Promise.all(revisions.map((revision) => requiredScenarios('client', revision)))
  const { runs, inapplicable } = clientPlan(clients, all.flat().filter(isChosen))
  for (const one of inapplicable) console.log(inapplicableLine(one))
  return runs
}

/** Checks the lists of all revisions, whatever is chosen of them. */
async function serverRunsOf(
  isChosen: (scenario: Scenario) => boolean,
): Promise<readonly ServerRun[]> {
  const all = await Promise.all(REVISIONS.map((revision) => requiredScenarios('server', revision)))
  const runs = serverPlan(all.flat()).filter(isChosen)
  for (const line of planLines(runs)) console.log(line)
  return runs
}

/** Runs scenarios, several at a time, and prints each result. Returns them in the order of the runs. */
async function runAll<Run extends ClientRun | ServerRun>(
  runs: readonly Run[],
  jobs: number,
  run: (scenario: Run) => Promise<Verdict>,
): Promise<readonly (Run & Verdict)[]> {
  const results = new Map<Run, Run & Verdict>()
  const waiting = runs.values()
  async function work(): Promise<void> {
    for (const scenario of waiting) {
      const result = { ...scenario, ...(await run(scenario)) }
      results.set(scenario, result)
      console.log(verdictLine(result))
    }
  }
  await Promise.all(Array.from({ length: jobs }, work))
  return runs.flatMap((scenario) => results.get(scenario) ?? [])
}

function oneOf<Word extends string>(option: string, words: readonly Word[], text: string): Word {
  const word = words.find((known) => known === text)
  if (word === undefined) throw new UserError(`${option} must be ${words.join(' or ')}: ${text}`)
  return word
}

await runCommand('conformance', conformance)
