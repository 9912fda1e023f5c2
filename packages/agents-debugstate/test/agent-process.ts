// An agent in its own process: `agent-process.ts <state URL> <MCP URL>`. For each line on standard input it
// calls `counter_add` and prints the session id. At the end of input it disposes of the client.
import { createInterface } from 'node:readline'
import { McpClient } from '@x/mcp-client'
import { SessionInfoDebugStateFactory } from '../src/index.ts'

const [baseUrl = '', url = ''] = process.argv.slice(2)
await using sessionInfoFactory = new SessionInfoDebugStateFactory({
  baseUrl,
  agentId: 'agent',
  env: {},
})
await using client = new McpClient({ url }, { sessionInfoFactory })
for await (const _ of createInterface({ input: process.stdin })) {
  await client.callTool('counter_add')
  process.stdout.write(`${await client.getSessionId()}\n`)
}
