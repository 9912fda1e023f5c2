import { cpus } from 'node:os'
import { resolve } from 'node:path'
import { benchClient } from '../client/bench.ts'
import { commandOptionsFrom } from '../command-options.ts'
import { benchDebugState } from '../debugstate/bench.ts'
import { benchGateway } from '../gateway/bench.ts'
import { ensureInstalled } from '../install.ts'
import { benchTools } from '../tools/bench.ts'
import { benchTransport } from '../transport/bench.ts'
import { UserError } from '../user-error.ts'
import type { BenchOptions, BenchResult } from './bench-result.ts'
import { table } from './table.ts'

const BENCHES: ReadonlyMap<string, (options: BenchOptions) => Promise<BenchResult>> = new Map([
  ['transport', benchTransport],
  ['client', benchClient],
  ['debugstate', benchDebugState],
  ['tools', benchTools],
  ['gateway', benchGateway],
])

const HELP = `Usage: pnpm bench [options] [name…]

Measures, and says how the figures stand to each other and to what we aim at. Exits with 1 if a run is
invalid, because the control was off by more than a quarter too often, or if an answer was wrong; never
because something is slow.

Names
  transport           CPU time of our transport beside bare undici and the SDK's own transport
  client              calls of our client beside those of the SDK, v1 and v2, and of LangChain's adapters
  debugstate          the debug-state service on one core, with SQLite, beside a bare node:http server
  tools               LangChain tools: calling, creating and finding them, beside LangChain's adapters
  gateway             the gateway beside servers of the SDKs, FastMCP and Mastra

Options
  --rounds <n>        interleaved repeats, at least 5 (default: 7)
  --only <part>       one part of client: calls, loss, resume or idle; of debugstate: get, put,
                      get-record or put-record; of tools: calls, create, start or path; of
                      gateway: modern, legacy, sessions, listeners, cancel, overhead or start
  --cpu-prof <dir>    also write CPU profiles of what is ours, which makes it slower
  --json              print one JSON object as the last line
  --help              this text`

/** `pnpm bench`. Resolves to the exit code. */
export async function bench(args: readonly string[]): Promise<number> {
  const { values, positionals } = commandOptionsFrom(
    {
      args: [...args],
      allowPositionals: true,
      options: {
        help: { type: 'boolean', short: 'h', default: false },
        json: { type: 'boolean', default: false },
        rounds: { type: 'string', default: '7' },
        only: { type: 'string' },
        'cpu-prof': { type: 'string' },
      },
    },
    'bench',
  )
  if (values.help) {
    console.log(HELP)
    return 0
  }
  const options = {
    rounds: roundsFrom(values.rounds),
    only: values.only,
    profileTo: values['cpu-prof'] === undefined ? undefined : resolve(values['cpu-prof']),
    progress: (text: string) => process.stderr.write(`${text}\n`),
  }
  const chosen = (positionals.length > 0 ? positionals : [...BENCHES.keys()]).map(benchNamed)
  await ensureInstalled()
  const results: BenchResult[] = []
  for (const run of chosen) results.push(await run(options))
  const figures = results.flatMap((result) => result.figures)
  const invalid = results.flatMap((result) => result.invalid)
  console.log(table(figures))
  for (const reason of invalid) console.log(`This run is invalid: ${reason}`)
  const machine = `${cpus().length} × ${cpus()[0]?.model ?? process.arch}`
  if (values.json) {
    console.log(JSON.stringify({ machine, node: process.version, figures, invalid }))
  }
  return invalid.length === 0 ? 0 : 1
}

function benchNamed(name: string): (options: BenchOptions) => Promise<BenchResult> {
  const run = BENCHES.get(name)
  if (run === undefined) {
    throw new UserError(`There is no "${name}": there is ${[...BENCHES.keys()].join(', ')}`)
  }
  return run
}

function roundsFrom(text: string): number {
  const rounds = Number(text)
  if (!Number.isInteger(rounds) || rounds < 5) {
    throw new UserError('--rounds takes a number from 5 on: fewer say nothing')
  }
  return rounds
}
