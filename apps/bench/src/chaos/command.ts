import { loadavg } from 'node:os'
import { ensureInstalled } from '../cli.ts'
import type { ComparedRow, CompareOptions } from './compare.ts'

/**
 * `pnpm chaos --peers`. With `json`, the last line is one JSON object. Resolves to false if a client
 * failed without any fault.
 */
export async function comparePeers(options: CompareOptions & { json?: boolean }): Promise<boolean> {
  await ensureInstalled()
  const { compare } = await import('./compare.ts') // its imports exist only after the installation
  const rows = await compare(options)
  const { seed, minutes, json } = options
  const load = loadavg()[0]?.toFixed(1)
  console.log(`Seed ${seed}, ${minutes} minutes for each client, load of the machine ${load}`)
  for (const line of tableOf(rows)) console.log(line)
  const invalid = rows.filter((row) => row.badWithoutFaults > 0)
  for (const { contender, era: where, badWithoutFaults } of invalid) {
    console.log(
      `Not valid: without faults ${badWithoutFaults} calls of ${contender} (${where}) failed`,
    )
  }
  for (const { crash } of rows) if (crash !== undefined) console.log(`The process of ${crash}`)
  const ok = invalid.length === 0
  if (json) console.log(JSON.stringify({ ok, seed, minutes, rows }))
  return ok
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
  'recovery ms, median': ({ recovery }) => recovery.medianMs?.toFixed(0) ?? '-',
  max: ({ recovery }) => recovery.maxMs?.toFixed(0) ?? '-',
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
