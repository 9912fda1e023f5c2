import { CommandError } from './command-error.ts'
import type { Command } from './command.ts'
import { DEFAULT_FILE } from './default-file.ts'
import { atMost, parseOptions } from './parse-options.ts'
import { planReport, reportText } from './plan-report.ts'
import { serveFlags, SERVE_OPTIONS } from './serve-flags.ts'

export const checkCommand: Command = {
  help: `Usage: mcp-gateway check [file] [options]

Checks a file (default: ${DEFAULT_FILE}) and the environment, and prints the configuration that they
make, with all defaults and with secrets masked; then the tools of the agents that are there. Exit
code 1 if anything is wrong, with a line for each of it: also what would only be wrong once somebody
is served, such as agents that everybody who reaches this machine could call.

Options
  --port, --host, --insecure, --stdio, --log-level
                       as for mcp-gateway serve: what it would do with them
  --json               {"config", "tools", "collisions", "dropped", "sources", "warnings"}
  --help               this text
`,
  async run({ args, env, stdout }) {
    const { values, positionals } = parseOptions('check', args, {
      ...SERVE_OPTIONS,
      json: { type: 'boolean', default: false },
    })
    atMost('check', positionals, 1)
    const [file = DEFAULT_FILE] = positionals
    const { plannedGateway } = await import('./planned-gateway.ts')
    await using planned = await plannedGateway(
      { file, env, flags: serveFlags(values) },
      { isToServe: true },
    )
    const report = planReport(planned.gateway, planned.warnings)
    const { maskedConfig } = await import('../config/masked-config.ts')
    const { stringify } = await import('yaml')
    const config = maskedConfig(planned.read.config)
    stdout.write(
      values.json
        ? `${JSON.stringify({ config, ...report })}\n`
        : `${stringify(config)}\n${reportText(report)}`,
    )
    const failed = report.sources.filter(({ state }) => state === 'failed')
    if (failed.length === 0) return
    throw new CommandError(`Failed: ${failed.map(({ name }) => name).join(', ')}`)
  },
}
