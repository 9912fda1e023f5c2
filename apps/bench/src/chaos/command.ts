import { loadavg } from 'node:os'
import { commandOptionsFrom } from '../command-options.ts'
import { ensureInstalled } from '../install.ts'
import { UserError } from '../user-error.ts'
import type { ComparedRow } from './compare.ts'

const HELP = `Usage: pnpm chaos --peers [options]

Makes the same calls through our clients and those of other projects, one after the other, on a server with the
same faults at the same times. Exits with 1 if a client fails without any fault, because then the comparison
is not valid.

Options
  --seed <number>      which calls, and which faults when (default: a random one, which is printed)
  --minutes <number>   duration of the faults for each client (default: 0.25)
  --era <name>         legacy, modern or both (default)
  --json               print one JSON object as the last line
  --help               this text`

/** `pnpm chaos --peers`. Resolves to the exit code. */
export async function chaosPeers(args: readonly string[]): Promise<number> {
  try {
    return await comparePeers(args)
  } catch (error) {
    if (!(error instanceof UserError)) throw error
    process.stderr.write(`chaos: ${error.message}\n`)
    return 1
  }
}

async function comparePeers(args: readonly string[]): Promise<number> {
  const { values } = commandOptionsFrom(
    {
      args: args.filter((arg) => arg !== '--'), // pnpm passes it on
      options: {
        peers: { type: 'boolean' },
        seed: { type: 'string', default: String(Math.ceil(Math.random() * 1e6)) },
        minutes: { type: 'string', default: '0.25' },
        era: { type: 'string', default: 'both' },
        json: { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h', default: false },
      },
    },
    'chaos --peers',
  )
  if (values.help) {
    console.log(HELP)
    return 0
  }
  const { era } = values
  if (era !== 'legacy' && era !== 'modern' && era !== 'both') {
    throw new UserError(`--era must be legacy, modern or both, not "${era}"`)
  }
  const seed = positive('seed', values.seed)
  const seconds = positive('minutes', values.minutes) * 60
  await ensureInstalled()
  const { compare } = await import('./compare.ts') // what it imports has to be installed
  const rows = await compare({
    seed,
    seconds,
    eras: era === 'both' ? ['legacy', 'modern'] : [era],
    progress: (text) => process.stderr.write(`${text}\n`),
  })
  console.log(`Seed ${seed}, ${seconds} s each, load of the machine ${loadavg()[0]?.toFixed(1)}`)
  for (const line of tableOf(rows)) console.log(line)
  const invalid = rows.filter((row) => row.badWithoutFaults > 0)
  for (const { contender, era: where, badWithoutFaults } of invalid) {
    console.log(
      `Not valid: without faults ${badWithoutFaults} calls of ${contender} (${where}) failed`,
    )
  }
  for (const { crash } of rows) if (crash !== undefined) console.log(`The process of ${crash}`)
  if (values.json) console.log(JSON.stringify({ ok: invalid.length === 0, seed, seconds, rows }))
  return invalid.length === 0 ? 0 : 1
}

function positive(name: string, text: string): number {
  const value = Number(text)
  if (value > 0) return value
  throw new UserError(`--${name} must be a number above 0, not "${text}"`)
}

const COLUMNS: Readonly<Record<string, (row: ComparedRow) => string | number>> = {
  client: ({ contender }) => contender,
  era: ({ era }) => era,
  calls: ({ calls }) => calls,
  'good %': ({ goodPercent }) => goodPercent.toFixed(1),
  doubled: ({ doubled }) => doubled,
  lost: ({ lost }) => lost,
  hung: ({ hung }) => hung,
  wrong: ({ wrong }) => wrong,
  'false claims': ({ falseClaims }) => falseClaims,
  unknown: ({ unknown }) => unknown,
  'recovery ms, median': ({ recovery }) => recovery.medianMs?.toFixed(0) ?? 'never',
  max: ({ recovery }) => recovery.maxMs?.toFixed(0) ?? 'never',
  never: ({ recovery }) => `${recovery.never}/${recovery.of}`,
  'sessions left': ({ sessionsLeft }) => sessionsLeft,
  handshakes: ({ handshakes }) => handshakes,
  GETs: ({ listenStreams }) => listenStreams,
  'requests/call': ({ requestsPerCall }) => requestsPerCall.toFixed(2),
  'calls/s': ({ callsPerSecond }) => callsPerSecond.toFixed(0),
}

function tableOf(rows: readonly ComparedRow[]): readonly string[] {
  const columns = Object.entries(COLUMNS).map(([title, cell]) => {
    const cells = [title, ...rows.map((row) => String(cell(row)))]
    const width = Math.max(...cells.map(({ length }) => length))
    return cells.map((text) => (title === 'client' ? text.padEnd(width) : text.padStart(width)))
  })
  return Array.from({ length: rows.length + 1 }, (_, line) =>
    columns.map((cells) => cells[line]).join('  '),
  )
}
