// The command `pnpm chaos`.
import { inspect, parseArgs } from 'node:util'
import { checkNames, figuresOf, historyOf, violationsOf } from './checks.ts'
import type { Figures, RunRecord, Violation } from './checks.ts'
import { killAll } from './processes.ts'
import { runChaos } from './run.ts'
import type { ChaosOptions } from './run.ts'
import { runScenarios, scenarios } from './scenarios.ts'
import type { Scenario, ScenarioReport } from './scenarios.ts'

const HELP = `Calls MCP tools under injected faults and checks what became of every call.

  pnpm chaos [options]

  --minutes <n>      time in which calls are made under faults (default 2)
  --seed <n>         seed of all faults (default: a random one, which is printed)
  --era <era>        legacy, modern or both (default both)
  --concurrency <n>  calls in flight (default 24)
  --short            three fixed seeds, then all named scenarios: about 90 s
  --scenario <name>  one named scenario; "list" prints the names
  --peers            other clients under the same faults
  --json             print one JSON object as the last line
  --help             print this text

Exit codes: 0 all checks hold, 1 there are violations, 2 the command line is wrong, 130 ended by a signal.
`
/** Outside of the workspace: it installs the peers first. */
const PEERS = new URL('../../bench/src/chaos/command.ts', import.meta.url)
const SHORT_SEEDS = [1, 2, 3]
const SHORT_SECONDS = 14
/** A busy machine needs much longer than the faults last. After this time, they last only a moment. */
const SHORT_BUSY_MS = 90_000
const SHORT_SECONDS_BUSY = 3
const SHORT_LIMIT_MS = 235_000
/** Violations that are printed in full. */
const SHOWN = 10

class UsageError extends Error {}

/** One run, as it is printed and written as JSON. */
type RunReport = Awaited<ReturnType<typeof reportOf>>

async function main(): Promise<boolean> {
  const values = parsed()
  if (values.peers) {
    const { chaosPeers } = await import(String(PEERS))
    return (await chaosPeers(process.argv.slice(2))) === 0
  }
  if (values.help) {
    process.stdout.write(HELP)
    return true
  }
  if (values.scenario === 'list') {
    for (const { name, promise } of scenarios) console.log(`${name.padEnd(30)} ${promise}`)
    return true
  }
  const era = values.era ?? 'both'
  if (era !== 'legacy' && era !== 'modern' && era !== 'both') {
    throw new UsageError(`--era must be legacy, modern or both, not "${era}"`)
  }
  const seed = wholeNumber('seed', values.seed ?? Math.floor(Math.random() * 1e6) + 1)
  const base = { era, concurrency: wholeNumber('concurrency', values.concurrency ?? 24) } as const
  const seconds = numberAbove0('minutes', values.minutes ?? 2) * 60
  const chosen = scenariosFrom(values)
  const seeds = values.short ? SHORT_SEEDS : [seed]
  if (values.short) setTimeout(stopShort, SHORT_LIMIT_MS).unref()

  const runs: RunReport[] = []
  for (const each of values.scenario === undefined ? seeds : []) {
    const isLate = performance.now() > SHORT_BUSY_MS
    const short = isLate ? SHORT_SECONDS_BUSY : SHORT_SECONDS
    runs.push(await reportOf({ ...base, seed: each, seconds: values.short ? short : seconds }))
  }
  const named: ScenarioReport[] = []
  for await (const report of runScenarios(chosen, seeds[0] ?? seed)) {
    const { name, ok, ms, error, repeat } = report
    console.log(`${(ok ? 'ok' : 'WRONG').padStart(9)}  ${name} (${ms} ms)`)
    if (!ok) console.log(`           ${error}\n           Repeat it with: ${repeat}`)
    named.push(report)
  }
  const ok = [...runs, ...named].every((report) => report.ok)
  if (values.json) console.log(JSON.stringify({ ok, runs, scenarios: named }))
  return ok
}

function stopShort(): void {
  end(
    'pnpm chaos --short did not end within 4 minutes: the machine is too busy, or a wait hangs',
    1,
  )
}

async function reportOf(options: ChaosOptions) {
  const { seed, era, concurrency, seconds } = options
  console.log(`\nseed ${seed}, ${seconds} s`)
  const record = await runChaos(options)
  const violations = violationsOf(record)
  const ok = violations.length === 0
  const figures = figuresOf(record)
  const repeat = `pnpm chaos --seed ${seed} --era ${era} --concurrency ${concurrency} --minutes ${seconds / 60}`
  for (const line of linesOf(record, violations, figures)) console.log(line)
  if (!ok) console.log(`Repeat it with: ${repeat}`)
  return { seed, ok, repeat, notes: record.notes, violations, figures }
}

function linesOf(
  record: RunRecord,
  violations: readonly Violation[],
  figures: Figures,
): readonly string[] {
  const shown = violations
    .slice(0, SHOWN)
    .flatMap(({ check, key, what }) => [
      `VIOLATION of "${check}"${key === undefined ? '' : `, ${key}`}: ${what}`,
      ...(key === undefined ? [] : historyOf(record, key).map((line) => `    ${line}`)),
    ])
  const rest = violations.length - SHOWN
  const counted = checkNames.map((name) => {
    const count = violations.filter(({ check }) => check === name).length
    return `${(count === 0 ? 'ok' : `${count} WRONG`).padStart(9)}  ${name}`
  })
  const table = Object.entries(figures).map(([name, value]) => {
    const parts = typeof value === 'number' ? [value] : Object.entries(value)
    return `${name.padEnd(42)} ${parts.map((part) => [part].flat().join(' ')).join(', ')}`
  })
  return [
    ...shown,
    ...(rest > 0 ? [`and ${rest} more violations`] : []),
    ...counted,
    '',
    ...table,
    ...record.notes,
  ]
}

type Values = ReturnType<typeof parsed>

function scenariosFrom({ scenario, short }: Values): readonly Scenario[] {
  if (scenario === undefined) return short ? scenarios : []
  const found = scenarios.filter(({ name }) => name === scenario)
  if (found.length > 0) return found
  throw new UsageError(`There is no scenario "${scenario}"; --scenario list prints the names`)
}

function parsed() {
  const text = { type: 'string' } as const
  const flag = { type: 'boolean' } as const
  const numbers = { minutes: text, seed: text, concurrency: text }
  const flags = { short: flag, peers: flag, json: flag, help: flag }
  try {
    return parseArgs({ options: { ...numbers, era: text, scenario: text, ...flags } }).values
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error), { cause: error })
  }
}

function numberAbove0(name: string, text: string | number): number {
  if (Number(text) > 0) return Number(text)
  throw new UsageError(`--${name} must be a number above 0, not "${text}"`)
}

function wholeNumber(name: string, text: string | number): number {
  const value = numberAbove0(name, text)
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
