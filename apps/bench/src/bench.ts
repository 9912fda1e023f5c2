import { cpus } from 'node:os'
import { resolve } from 'node:path'
import { benchClient, benchTools, benchTransport } from './calls/benches.ts'
import { ensureInstalled, runCommand, UserError, wholeNumber } from './cli.ts'
import { callFigures, laterFigures } from './gateway/calls.ts'
import { cancelFigures } from './gateway/cancel.ts'
import { overheadFigures, pathFigures } from './gateway/overhead.ts'
import { startFigures } from './gateway/start.ts'
import { listenerFigures, sessionFigures } from './gateway/streams.ts'
import { taskFigures } from './gateway/tasks.ts'
import { table } from './measure/figure.ts'
import type { Bench, BenchResult } from './measure/figure.ts'
import { joined, MIN_ROUNDS } from './measure/rounds.ts'

/** Parts of each bench, by their names. */
const BENCHES: Readonly<Record<string, Readonly<Record<string, Bench>>>> = {
  transport: benchTransport,
  client: benchClient,
  tools: benchTools,
  search: {
    // It uses packages that may not be installed before the command runs.
    catalogue: async (options) => (await import('./search/search.ts')).searchFigures(options),
  },
  gateway: {
    modern: (options) => callFigures('modern', options),
    legacy: (options) => callFigures('legacy', options),
    later: laterFigures,
    sessions: sessionFigures,
    listeners: listenerFigures,
    cancel: cancelFigures,
    tasks: taskFigures,
    overhead: overheadFigures,
    path: pathFigures,
    start: startFigures,
  },
}

const HELP = `Usage: pnpm bench [options] [name…]

Prints measurements, and their ratios to those of other software and to the goals of this project. Exits with 1
if a run is invalid: the control was not steady, or an answer was wrong. A slow result is not a failure.

Names, and the parts of each
${Object.entries(BENCHES)
  .map(([name, parts]) => `  ${name.padEnd(18)}  ${Object.keys(parts).join(', ')}`)
  .join('\n')}

Options
  --rounds <n>        interleaved rounds, at least ${MIN_ROUNDS} (default: 7)
  --only <part>       measure only this part of a bench
  --cpu-prof <dir>    also write CPU profiles of our own code, which makes it slower
  --json              print one JSON object as the last line
  --help              this text`

const OPTIONS = {
  rounds: { type: 'string', default: '7' },
  only: { type: 'string' },
  'cpu-prof': { type: 'string' },
} as const

await runCommand(
  { name: 'bench', help: HELP, options: OPTIONS, takesNames: true },
  async (values, given) => {
    const rounds = wholeNumber('--rounds', values.rounds, MIN_ROUNDS)
    const names = given.length > 0 ? given : Object.keys(BENCHES)
    const parts = names.flatMap((name) => partsOf(name, values.only))
    await ensureInstalled()
    const profileTo = values['cpu-prof'] === undefined ? undefined : resolve(values['cpu-prof'])
    const results: BenchResult[] = []
    for (const measure of parts) results.push(await measure({ rounds, profileTo, progress }))
    const { figures, invalid } = joined(results)
    console.log(table(figures))
    for (const reason of invalid) console.log(`This run is invalid: ${reason}`)
    const machine = `${cpus().length} × ${cpus()[0]?.model ?? process.arch}`
    if (values.json) {
      console.log(JSON.stringify({ machine, node: process.version, figures, invalid }))
    }
    return invalid.length === 0 ? 0 : 1
  },
)

function progress(text: string): void {
  process.stderr.write(`${text}\n`)
}

function partsOf(name: string, only: string | undefined): readonly Bench[] {
  const parts = BENCHES[name]
  if (parts === undefined) {
    throw new UserError(`Unknown bench "${name}". Use ${Object.keys(BENCHES).join(', ')}`)
  }
  if (only === undefined) return Object.values(parts)
  const part = parts[only]
  if (part === undefined) {
    throw new UserError(`Unknown part "${only}" of ${name}. Use ${Object.keys(parts).join(', ')}`)
  }
  return [part]
}
