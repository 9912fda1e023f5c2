// The command `pnpm chaos`.
import { inspect, parseArgs } from 'node:util'
import { checkNames, figuresOf, historyOf, violationsOf } from './checks.ts'
import { KILLED_TASKS, runKilledTasks } from './killed-tasks.ts'
import { killAll } from './processes.ts'
import { REPLICAS, runReplicas } from './replicas.ts'
import { runChaos } from './run.ts'
import type { ChaosOptions } from './run.ts'
import type { ScenarioReport } from './scenario.ts'

const HELP = `Calls MCP tools under injected faults, and checks the outcome of every call.

  pnpm chaos [options]

  --minutes <n>      time in which calls are made under faults (default 2)
  --seed <n>         seed of all faults (default: a random one, which is printed)
  --era <era>        legacy, modern or both (default both)
  --concurrency <n>  calls in flight (default 24)
  --short            three fixed seeds, then three of killed-tasks and one of replicas: about 3 minutes
  --scenario <name>  only the scenario killed-tasks or replicas
  --seeds <n>        seeds of the scenario, from --seed on (default 1)
  --seconds <n>      time in which the scenario replicas makes calls (default 60)
  --json             print one JSON object as the last line
  --help             print this text

Exit codes: 0 all checks hold, 1 there are violations, 2 the command line is wrong, 130 ended by a signal.
`
const SHORT_SEEDS = [1, 2, 3]
const SHORT_MINUTES = 0.2
/** In these seeds of `killed-tasks`, each kind of process is killed, and two agents continue one thread. */
const SHORT_TASK_SEEDS = [24, 31, 39]
const SHORT_REPLICAS = { seed: 1, seconds: 12 }
/** Violations that are printed in full. */
const SHOWN = 10

class UsageError extends Error {}

async function main(): Promise<boolean> {
  const values = parseCommandLine()
  if (values.help) {
    process.stdout.write(HELP)
    return true
  }
  const { short = false, scenario: chosen } = values
  const era = parseEra(values.era)
  const seed = parseWholeNumber('seed', values.seed ?? Math.floor(Math.random() * 1e6) + 1)
  const concurrency = parseWholeNumber('concurrency', values.concurrency ?? 24)
  const minutes = parseNumber('minutes', values.minutes ?? 2)
  if (chosen !== undefined && chosen !== KILLED_TASKS && chosen !== REPLICAS) {
    throw new UsageError(`--scenario must be ${KILLED_TASKS} or ${REPLICAS}, not "${chosen}"`)
  }
  const seconds = parseNumber('seconds', values.seconds ?? 60)

  const runs: { ok: boolean }[] = []
  if (!chosen) {
    const base = { era, concurrency, minutes: short ? SHORT_MINUTES : minutes }
    for (const each of short ? SHORT_SEEDS : [seed])
      runs.push(await report({ ...base, seed: each }))
  }
  const reports: ScenarioReport[] = []
  const count = parseWholeNumber('seeds', values.seeds ?? 1)
  const seeds = Array.from({ length: count }, (_, index) => seed + index)
  const add = (one: ScenarioReport): void => {
    printScenario(one)
    reports.push(one)
  }
  if (chosen === KILLED_TASKS || short) {
    for await (const one of runKilledTasks(chosen ? seeds : SHORT_TASK_SEEDS)) add(one)
  }
  if (chosen === REPLICAS || short) {
    for (const each of chosen ? seeds.map((one) => ({ seed: one, seconds })) : [SHORT_REPLICAS]) {
      const one = await runReplicas(each)
      if (one) add(one)
    }
  }
  if (reports.length === 0 && (chosen !== undefined || short)) {
    console.log(
      'The scenarios were left out, because no redis-server is on the PATH. On Debian, .ci/servers installs it.',
    )
  }
  const isEmpty = runs.length + reports.length === 0
  const ok = !isEmpty && [...runs, ...reports].every((one) => one.ok)
  if (values.json) console.log(JSON.stringify({ ok, runs, scenarios: reports }))
  return ok
}

function printScenario({ name, ok, seed, ms, error, repeat, summary }: ScenarioReport): void {
  console.log(`${(ok ? 'ok' : 'WRONG').padStart(9)}  ${name} (${ms} ms) seed ${seed}: ${summary}`)
  if (!ok) console.log(`           ${error}\n           Repeat it with: ${repeat}`)
}

/** Makes a run, prints its report, and returns it. */
async function report(options: ChaosOptions) {
  const { seed, era, concurrency, minutes } = options
  console.log(`\nseed ${seed}, ${minutes} minutes`)
  const record = await runChaos(options)
  const violations = violationsOf(record)
  const figures = figuresOf(record)
  const repeat = `pnpm chaos --seed ${seed} --era ${era} --concurrency ${concurrency} --minutes ${minutes}`

  for (const { check, key, what } of violations.slice(0, SHOWN)) {
    console.log(`VIOLATION of "${check}"${key === undefined ? '' : `, ${key}`}: ${what}`)
    for (const line of key === undefined ? [] : historyOf(record, key)) console.log(`    ${line}`)
  }
  if (violations.length > SHOWN) console.log(`and ${violations.length - SHOWN} more violations`)
  for (const name of checkNames) {
    const count = violations.filter(({ check }) => check === name).length
    console.log(`${(count === 0 ? 'ok' : `${count} WRONG`).padStart(9)}  ${name}`)
  }
  console.log()
  for (const [name, value] of Object.entries(figures)) {
    const parts = typeof value === 'number' ? [value] : Object.entries(value)
    console.log(`${name.padEnd(42)} ${parts.map((part) => [part].flat().join(' ')).join(', ')}`)
  }
  for (const note of record.notes) console.log(note)
  const ok = violations.length === 0
  if (!ok) console.log(`Repeat it with: ${repeat}`)
  return { seed, ok, repeat, notes: record.notes, violations, figures }
}

function parseCommandLine() {
  const text = { type: 'string' } as const
  const flag = { type: 'boolean' } as const
  const texts = {
    minutes: text,
    seed: text,
    seeds: text,
    seconds: text,
    concurrency: text,
    era: text,
  }
  const flags = { short: flag, json: flag, help: flag }
  const args = process.argv.slice(2).filter((arg) => arg !== '--') // pnpm passes it on
  try {
    return parseArgs({ args, options: { ...texts, scenario: text, ...flags } }).values
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error), { cause: error })
  }
}

function parseEra(era = 'both'): ChaosOptions['era'] {
  if (era === 'legacy' || era === 'modern' || era === 'both') return era
  throw new UsageError(`--era must be legacy, modern or both, not "${era}"`)
}

function parseNumber(name: string, text: string | number): number {
  if (Number(text) > 0) return Number(text)
  throw new UsageError(`--${name} must be a number above 0, not "${text}"`)
}

function parseWholeNumber(name: string, text: string | number): number {
  const value = parseNumber(name, text)
  if (Number.isSafeInteger(value)) return value
  throw new UsageError(`--${name} must be a whole number, not "${text}"`)
}

/** Ends the command and all its processes at once. */
function end(reason: string, exitCode: number): never {
  void killAll()
  process.stderr.write(`${reason}\n`)
  if (process.argv.includes('--json')) console.log(JSON.stringify({ ok: false, error: reason }))
  process.exit(exitCode)
}

for (const name of ['SIGINT', 'SIGTERM'] as const) {
  process.once(name, () => end(`Ended by ${name}`, 130))
}
try {
  process.exitCode = (await main()) ? 0 : 1
} catch (error) {
  if (error instanceof UsageError) end(`${error.message}. See pnpm chaos --help`, 2)
  end(inspect(error), 1)
}
