import { ensureInstalled, runCommand } from './cli.ts'
import type { Check, CheckOutcome } from './interop/check.ts'

const HELP = `Usage: pnpm interop [options]

Checks our packages with those of others: LangChain's adapters with the Client of SDK v1 and v2 on our transport,
and our tools with these clients on their own transport; the gateway with clients of both eras, the MCP
Inspector, LangGraph's own server and templates, and A2A agents. Exits with 1 unless all checks pass.

Options
  --json       print one JSON object as the last line
  --help       this text`

async function interop({ json }: { readonly json: boolean }): Promise<number> {
  await ensureInstalled()
  const { outcomeOf } = await import('./interop/check.ts')
  const outcomes: CheckOutcome[] = []
  let group = ''
  for (const check of await allChecks()) {
    if (check.group !== group) console.log(`\n${check.group}`)
    ;({ group } = check)
    const outcome = await outcomeOf(check)
    outcomes.push(outcome)
    const mark = outcome.ok ? 'ok    ' : 'FAILED'
    const reason = outcome.reason === undefined ? '' : `: ${outcome.reason}`
    console.log(`  ${mark}  ${outcome.name} (${outcome.ms} ms)${reason}`)
  }
  const failed = outcomes.filter(({ ok }) => !ok).length
  console.log(`\n${outcomes.length - failed} of ${outcomes.length} checks passed`)
  if (json) console.log(JSON.stringify({ ok: failed === 0, checks: outcomes }))
  return failed === 0 ? 0 : 1
}

/** Loads the checks, which need the installed packages. */
async function allChecks(): Promise<readonly Check[]> {
  const { adaptersOnOurTransport, ourToolsOnStockClients } =
    await import('./interop/library-checks.ts')
  const gateway = await import('./interop/gateway-checks.ts')
  const { gatewayInspector } = await import('./interop/inspector-checks.ts')
  const { gatewayA2a } = await import('./interop/a2a-checks.ts')
  const { gatewayTemplates } = await import('./interop/template-checks.ts')
  return [
    ...adaptersOnOurTransport,
    ...ourToolsOnStockClients,
    ...gateway.gatewayClients,
    ...gateway.gatewayAccess,
    ...gatewayInspector,
    ...gateway.gatewayInLangGraphServer,
    ...gatewayTemplates,
    ...gatewayA2a,
  ]
}

await runCommand({ name: 'interop', help: HELP, options: {}, takesNames: false }, interop)
