import type { Command } from './command.ts'
import { writeKeyLines, writeKeyTable } from './key-table.ts'
import { ServiceClient } from './service-client.ts'
import { SERVICE_HELP, serviceOptionsFrom } from './service-options.ts'

export const listCommand: Command = {
  help: `Usage: debugstate list <agentId> [options]

Lists the keys of an agent, never their values. Without a terminal: key, bytes, time of the last write
and time of the end, separated by tabs.

${SERVICE_HELP}

Output
  --json                 {"agentId", "keys": [{"key", "bytes", "ageMs", "updatedAt", "expiresAt"}],
                          "truncated"}
  --help                 this text
`,
  async run(context) {
    const { stdout, stderr } = context
    const { config, json } = serviceOptionsFrom('list', [], context)
    await using client = new ServiceClient(config)
    const list = await client.list()
    if (json) stdout.line(JSON.stringify(list))
    else if (stdout.isTerminal) writeKeyTable(list, stdout)
    else writeKeyLines(list, stdout)
    if (list.truncated && !stdout.isTerminal) stderr.line('debugstate: there are more keys')
  },
}
