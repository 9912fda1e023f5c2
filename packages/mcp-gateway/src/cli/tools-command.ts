import { CommandError } from './command-error.ts'
import type { Command } from './command.ts'
import { DEFAULT_FILE } from './default-file.ts'
import { atMost, parseOptions } from './parse-options.ts'
import { planReport, reportText } from './plan-report.ts'

export const toolsCommand: Command = {
  help: `Usage: mcp-gateway tools [file] [options]

Looks for the agents of a file (default: ${DEFAULT_FILE}) and lists the tools they become, names that
several wanted, and what was left out and why. A source that fails is an exit code of 1.

Options
  --json               {"tools", "collisions", "dropped", "sources", "warnings"}
  --help               this text
`,
  async run({ args, env, stdout }) {
    const { values, positionals } = parseOptions('tools', args, {
      json: { type: 'boolean', default: false },
    })
    atMost('tools', positionals, 1)
    const [file = DEFAULT_FILE] = positionals
    const { plannedGateway } = await import('./planned-gateway.ts')
    await using planned = await plannedGateway({ file, env, flags: [] })
    const report = planReport(planned.gateway, planned.warnings)
    stdout.write(values.json ? `${JSON.stringify(report)}\n` : reportText(report))
    const failed = report.sources.filter(({ state }) => state === 'failed')
    if (failed.length === 0) return
    throw new CommandError(`Failed: ${failed.map(({ name }) => name).join(', ')}`)
  },
}
