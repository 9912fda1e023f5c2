import { CommandError } from './command-error.ts'
import type { Command } from './command.ts'
import { ServiceClient } from './service-client.ts'
import { SERVICE_HELP, serviceOptionsFrom } from './service-options.ts'

export const getCommand: Command = {
  help: `Usage: debugstate get <agentId> <key> [options]

Prints the value in full: a session id, or the record of a session. Whoever sees it can use the session.
Without a terminal it is written byte for byte, with no line end added. No value: exit code 1.

${SERVICE_HELP}

Output
  --json                 {"agentId", "key", "value"}
  --help                 this text
`,
  async run(context) {
    const { stdout } = context
    const { config, rest, json } = serviceOptionsFrom('get', ['key'], context)
    const [key = ''] = rest
    const { agentId } = config
    await using client = new ServiceClient(config)
    const value = await client.get(key)
    if (value === undefined) throw new CommandError(nothing(key, agentId))
    if (json) stdout.line(JSON.stringify({ agentId, key, value: value.toString() }))
    else if (stdout.isTerminal) stdout.line(stdout.harmless(value.toString().replace(/\n$/, '')))
    else stdout.write(value)
  },
}

export function nothing(key: string, agentId: string): string {
  return `Nothing is stored for ${agentId} under ${JSON.stringify(key)}: see debugstate list ${agentId}`
}
