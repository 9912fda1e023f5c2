import { ensureInstalled, runCommand, UserError, wholeNumber } from './cli.ts'
import {
  clientPlan,
  CLIENTS,
  execute,
  INAPPLICABLE,
  isClient,
  isExtension,
  planLines,
  serverPlan,
} from './conformance/plan.ts'
import type { Run } from './conformance/plan.ts'
import { summariesFrom, summaryLines, verdictLine } from './conformance/report.ts'
import type { RunResult } from './conformance/report.ts'
import { requiredScenarios, REVISIONS, SIDES } from './conformance/suite.ts'

const HELP = `Usage: pnpm conformance [options]

Runs the official MCP conformance suite: every scenario that a revision requires, and those of the extensions for
authorization, tasks and skills. Client scenarios run McpClient, and the Client of SDK v1 and v2 on our transport;
server scenarios run a gateway, with agents or with a fixture server behind it. Scenarios that a client cannot run are
listed with the reason. Exits with 1 unless all of them pass. Needs no network.

Options
  --side <side>       only this end of a connection (${SIDES.join(', ')})
  --client <name>     only this client, and no servers; repeatable (${CLIENTS.join(', ')})
  --revision <date>   only this revision; repeatable (${REVISIONS.join(', ')})
  --scenario <name>   only this scenario; repeatable
  --jobs <n>          number of scenarios at the same time (default: 3)
  --json              print one JSON object as the last line
  --help              this text`

const OPTIONS = {
  jobs: { type: 'string', default: '3' },
  side: { type: 'string', multiple: true },
  client: { type: 'string', multiple: true },
  revision: { type: 'string', multiple: true },
  scenario: { type: 'string', multiple: true },
} as const

await runCommand(
  { name: 'conformance', help: HELP, options: OPTIONS, takesNames: false },
  async (values) => {
    const jobs = wholeNumber('--jobs', values.jobs, 1)
    const given = values.side ?? (values.client === undefined ? SIDES : ['client'])
    const sides = given.map((side) => oneOf('--side', SIDES, side))
    const clients = (values.client ?? CLIENTS).map((client) => oneOf('--client', CLIENTS, client))
    const revisions = (values.revision ?? REVISIONS).map((revision) =>
      oneOf('--revision', REVISIONS, revision),
    )
    await ensureInstalled()
    const plans = await Promise.all(
      sides.map(async (side) => {
        // Checks the lists of all revisions, whatever is chosen of them.
        const all = await Promise.all(
          REVISIONS.map((revision) => requiredScenarios(side, revision)),
        )
        return side === 'client' ? clientPlan(clients, all.flat()) : serverPlan(all.flat())
      }),
    )
    const chosen = plans
      .flat()
      .filter(
        ({ revision, name }) => revisions.includes(revision) && isNamed(name, values.scenario),
      )
    const unknown = values.scenario?.find((name) => chosen.every((run) => run.name !== name))
    if (unknown !== undefined) {
      throw new UserError(`${revisions.join(' and ')} has no required scenario "${unknown}"`)
    }
    for (const line of planLines(chosen.filter(({ subject }) => !isClient(subject))))
      console.log(line)
    const results = await runAll(chosen.filter(isApplicable), jobs)
    console.log(summaryLines(results))
    if (values.json) {
      const required = results.filter(({ isRequired }) => isRequired)
      const extensions = results.filter(({ name }) => isExtension(name))
      const summaries = { ...summariesFrom(required), extensions: summariesFrom(extensions) }
      console.log(JSON.stringify(summaries))
    }
    return results.every(({ isPassed }) => isPassed) ? 0 : 1
  },
)

function isNamed(name: string, names: readonly string[] | undefined): boolean {
  return names?.includes(name) ?? true
}

/** Prints the reason if a run is not applicable. */
function isApplicable({ subject, revision, name }: Run): boolean {
  const reason = INAPPLICABLE[`${subject} ${name}`]
  if (reason === undefined) return true
  console.log(`not run ${subject.padEnd(10)}  ${revision}  ${name}\n          ${reason}`)
  return false
}

/** Runs scenarios, several at a time, and prints each result. Returns them in the order of the runs. */
async function runAll(runs: readonly Run[], jobs: number): Promise<readonly RunResult[]> {
  const results = new Map<Run, RunResult>()
  const waiting = runs.values()
  async function work(): Promise<void> {
    for (const run of waiting) {
      const result = { ...run, ...(await execute(run)) }
      results.set(run, result)
      console.log(verdictLine(result))
    }
  }
  await Promise.all(Array.from({ length: jobs }, work))
  return runs.flatMap((run) => results.get(run) ?? [])
}

function oneOf<Word extends string>(option: string, words: readonly Word[], text: string): Word {
  const word = words.find((known) => known === text)
  if (word === undefined) throw new UserError(`${option} must be ${words.join(' or ')}: ${text}`)
  return word
}
