import { CommandError } from './command-error.ts'
import type { Command } from './command.ts'
import { nothing } from './get-command.ts'
import { ServiceClient } from './service-client.ts'
import { SERVICE_HELP, serviceOptionsFrom } from './service-options.ts'

export const deleteCommand: Command = {
  help: `Usage: debugstate delete <agentId> <key> [options]

Takes one value out, whoever wrote it last. The session on its MCP server stays. No value: exit code 1.

${SERVICE_HELP}

Output
  --json                 {"agentId", "key", "deleted": true}
  --help                 this text
`,
  async run(context) {
    const { stdout } = context
    const { config, rest, json } = serviceOptionsFrom('delete', ['key'], context)
    const [key = ''] = rest
    const { agentId } = config
    await using client = new ServiceClient(config)
    if (!(await client.delete(key))) throw new CommandError(nothing(key, agentId))
    if (json) stdout.line(JSON.stringify({ agentId, key, deleted: true }))
    else stdout.line(`Deleted ${stdout.harmless(key)}`)
  },
}
