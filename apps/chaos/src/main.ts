// The command `pnpm chaos`.
import { parseArgs } from 'node:util'
import { checkNames, figuresOf, historyOf, SLACK_MS, violationsOf } from './checks.ts'
import type { Figures, RunRecord, Violation } from './checks.ts'
import { runChaos } from './run.ts'
import type { ChaosOptions } from './run.ts'
import { runScenarios, scenarios } from './scenarios.ts'

const HELP = `Calls MCP tools under injected faults and checks what became of every call.

  pnpm chaos [options]

  --minutes <n>      time in which calls are made under faults (default 2)
  --calls <n>        end after so many calls instead
  --seed <n>         seed of all faults (default: a random one, which is printed)
  --era <era>        legacy, modern or both (default both)
  --concurrency <n>  calls in flight (default 24)
  --short            three fixed seeds and all named scenarios, about 60 s
  --scenario <name>  one named scenario; "list" prints the names
  --peers            other clients under the same faults
  --json             print one JSON object as the last line
  --help             print this text

Exit codes: 0 all checks hold, 1 there are violations, 2 the command line is wrong.
`
/** Outside of the workspace: it installs the peers first. */
const PEERS = new URL('../../bench/src/chaos/command.ts', import.meta.url)
const SHORT_SEEDS = [1, 2, 3]
const SHORT_SECONDS = 12
/** Violations that are printed in full. */
const SHOWN = 10
/** For a run that ends after a number of calls: enough for any machine. */
const LONG_SECONDS = 4 * 3600

class UsageError extends Error {}

interface Outcome {
  readonly options: ChaosOptions
  readonly violations: readonly Violation[]
  readonly figures: Figures
}

async function main(): Promise<boolean> {
  const { values } = parsed()
  if (values.peers) {
    const { chaosPeers } = await import(String(PEERS))
    return (await chaosPeers(process.argv.slice(2))) === 0
  }
  if (values.help) {
    process.stdout.write(HELP)
    return true
  }
  const era = values.era ?? 'both'
  if (era !== 'legacy' && era !== 'modern' && era !== 'both') {
    throw new UsageError(`--era must be legacy, modern or both, not "${era}"`)
  }
  const seed = numberFrom('seed', values.seed) ?? Math.floor(Math.random() * 1e6) + 1
  const calls = numberFrom('calls', values.calls)
  const minutes = numberFrom('minutes', values.minutes, false) ?? 2
  const concurrency = numberFrom('concurrency', values.concurrency) ?? 24
  const seconds = calls === undefined ? minutes * 60 : LONG_SECONDS
  const abort = new AbortController()
  for (const name of ['SIGINT', 'SIGTERM'] as const) {
    process.once(name, () => abort.abort(new UsageError(`Stopped by ${name}`)))
  }
  const base = { era, concurrency, log: progress, signal: abort.signal } as const

  if (values.scenario === 'list') {
    for (const { name, promise } of scenarios) console.log(`${name.padEnd(40)} ${promise}`)
    return true
  }
  if (values.scenario !== undefined) return runNamed([values.scenario], seed)

  const outcomes: Outcome[] = []
  const seeds = values.short ? SHORT_SEEDS : [seed]
  for (const each of seeds) {
    const options: ChaosOptions = values.short
      ? { ...base, seed: each, seconds: SHORT_SECONDS }
      : { ...base, seed, seconds, ...(calls !== undefined && { calls }) }
    outcomes.push(await runSeed(options))
  }
  const scenariosOk = !values.short || (await runNamed(undefined, 1))
  const violations = outcomes.flatMap((one) => one.violations)
  const ok = scenariosOk && violations.length === 0
  if (values.json) {
    const [first] = outcomes
    const figures = values.short
      ? Object.fromEntries(outcomes.map((one) => [one.options.seed, one.figures]))
      : first?.figures
    const all = outcomes.reduce((sum, one) => sum + one.figures.calls, 0)
    console.log(JSON.stringify({ ok, seed: seeds[0], calls: all, violations, figures }))
  }
  return ok
}

async function runSeed(options: ChaosOptions): Promise<Outcome> {
  console.log(`seed ${options.seed}`)
  const record = await runChaos(options)
  const violations = violationsOf(record)
  const figures = figuresOf(record)
  printViolations(record, violations)
  printChecks(violations)
  printFigures(figures)
  if (violations.length > 0) console.log(`\nrepeat it with: ${commandFor(options)}`)
  return { options, violations, figures }
}

/** The command that runs the same again. */
function commandFor({ seed, era, concurrency, seconds, calls }: ChaosOptions): string {
  const length = calls === undefined ? `--minutes ${seconds / 60}` : `--calls ${calls}`
  return `pnpm chaos --seed ${seed} --era ${era} --concurrency ${concurrency} ${length}`
}

function printViolations(record: RunRecord, violations: readonly Violation[]): void {
  for (const { check, key, what } of violations.slice(0, SHOWN)) {
    console.log(`\nVIOLATION of "${check}"${key === undefined ? '' : `, ${key}`}: ${what}`)
    if (key === undefined) continue
    for (const line of historyOf(record, key)) console.log(`    ${line}`)
  }
  if (violations.length > SHOWN) console.log(`\n… and ${violations.length - SHOWN} more violations`)
}

function printChecks(violations: readonly Violation[]): void {
  console.log('')
  for (const name of checkNames) {
    const count = violations.filter(({ check }) => check === name).length
    console.log(`${(count === 0 ? 'ok' : `${count} WRONG`).padStart(9)}  ${name}`)
  }
}

function printFigures(figures: Figures): void {
  const { outcomes, latency, recovery } = figures
  const rate = `${(figures.needlessUnknownRate * 100).toFixed(1)} % of the unknown ones`
  const rows = [
    ['calls', `${figures.calls}, ${figures.callsPerSecond} per second`],
    ['outcomes', list(outcomes)],
    ['needless unknowns', `${figures.needlessUnknowns}, ${rate}`],
    ['time of a call', `p50 ${latency.p50} ms, p95 ${latency.p95} ms, max ${latency.max} ms`],
    [
      'after a restart',
      `first good call p50 ${recovery.p50} ms, max ${recovery.max} ms, of ${recovery.restarts}`,
    ],
    ['sessions', `${figures.sessionsOpened} opened, ${figures.handshakes} handshakes`],
    ['faults', list(figures.faults)],
    ['slack', `${SLACK_MS} ms beyond a deadline, beside the measured delay of the event loop`],
  ]
  console.log('')
  for (const [name = '', value = ''] of rows) console.log(`${name.padEnd(18)} ${value}`)
}

function list(counts: Readonly<Record<string, number>>): string {
  return Object.entries(counts)
    .map(([name, count]) => `${name} ${count}`)
    .join(', ')
}

async function runNamed(names: readonly string[] | undefined, seed: number): Promise<boolean> {
  const known = scenarios.map(({ name }) => name)
  const stranger = names?.find((name) => !known.includes(name))
  if (stranger !== undefined) {
    throw new UsageError(`There is no scenario "${stranger}"; --scenario list prints the names`)
  }
  console.log(`\nscenarios, seed ${seed}`)
  const reports = await runScenarios(names, seed)
  for (const { name, ok, ms, error } of reports) {
    console.log(`${(ok ? 'ok' : 'WRONG').padStart(9)}  ${name} (${ms} ms)${ok ? '' : `: ${error}`}`)
    if (!ok) console.log(`           repeat it with: pnpm chaos --scenario ${name} --seed ${seed}`)
  }
  return reports.every(({ ok }) => ok)
}

function progress(line: string): void {
  process.stderr.write(`${line}\n`)
}

function parsed(): ReturnType<typeof parseOptions> {
  try {
    return parseOptions()
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error), { cause: error })
  }
}

function parseOptions() {
  const text = { type: 'string' } as const
  const flag = { type: 'boolean' } as const
  return parseArgs({
    options: {
      minutes: text,
      calls: text,
      seed: text,
      era: text,
      concurrency: text,
      scenario: text,
      short: flag,
      peers: flag,
      json: flag,
      help: flag,
    },
  })
}

function numberFrom(name: string, text: string | undefined, isWhole = true): number | undefined {
  if (text === undefined) return undefined
  const value = Number(text)
  if (value > 0 && (!isWhole || Number.isSafeInteger(value))) return value
  throw new UsageError(
    `--${name} must be a ${isWhole ? 'whole ' : ''}number above 0, not "${text}"`,
  )
}

try {
  process.exitCode = (await main()) ? 0 : 1
} catch (error) {
  if (!(error instanceof UsageError)) throw error
  process.stderr.write(`${error.message}. See pnpm chaos --help\n`)
  process.exitCode = 2
}
