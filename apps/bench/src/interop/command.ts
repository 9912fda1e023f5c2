import { commandOptionsFrom, ensureInstalled } from '../cli.ts'
import type { CheckOutcome } from './check.ts'

const HELP = `Usage: pnpm interop [options]

Checks that our packages work with those of others: LangChain's adapters with the SDK's Client, v1 and v2, on
our transport, and our tools with the SDK's Client on its own transport; the gateway with both Clients in both
eras, with the adapters, our clients and the MCP Inspector, over HTTP and stdio, and in LangGraph's own server;
the gateway with agents on the SDK of A2A, 1.0 and 0.3.
Exits with 1 unless all of it works.

Options
  --json       print one JSON object as the last line
  --help       this text`

/** `pnpm interop`. Resolves to the exit code. */
export async function interop(args: readonly string[]): Promise<number> {
  const { values } = commandOptionsFrom(
    {
      args: [...args],
      options: {
        help: { type: 'boolean', short: 'h', default: false },
        json: { type: 'boolean', default: false },
      },
    },
    'interop',
  )
  if (values.help) {
    console.log(HELP)
    return 0
  }
  await ensureInstalled()
  // Not before it is installed.
  const { outcomeOf } = await import('./check.ts')
  const { CHECKS } = await import('./checks.ts')
  const outcomes: CheckOutcome[] = []
  let group = ''
  for (const check of CHECKS) {
    if (check.group !== group) console.log(`\n${check.group}`)
    ;({ group } = check)
    const outcome = await outcomeOf(check)
    outcomes.push(outcome)
    const mark = outcome.ok ? 'ok    ' : 'FAILED'
    const reason = outcome.reason === undefined ? '' : `: ${outcome.reason}`
    console.log(`  ${mark}  ${outcome.name} (${outcome.ms} ms)${reason}`)
  }
  const failed = outcomes.filter(({ ok }) => !ok).length
  console.log(`\n${outcomes.length - failed} of ${outcomes.length} work`)
  if (values.json) console.log(JSON.stringify({ ok: failed === 0, checks: outcomes }))
  return failed === 0 ? 0 : 1
}
