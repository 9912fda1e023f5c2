// A process of its own with one client: `client-process.ts <url> <session file>`. It does what it is told on
// standard input, one command a line, and answers each with one line of JSON. At the end of input it
// disposes of the client, and then ends by itself if nothing keeps it alive.
import { createInterface } from 'node:readline'
import { McpClient } from '../src/index.ts'
import { SessionFileFactory } from './session-file.ts'

const [url = '', file = ''] = process.argv.slice(2)
const client = new McpClient({ url }, { sessionInfoFactory: new SessionFileFactory(file) })

const commands: Readonly<Record<string, () => Promise<unknown>>> = {
  add: async () => (await client.callTool('counter_add')).structuredContent,
  session: () => client.getSessionId(),
  dispose: () => client.dispose(),
  resources: async () => process.getActiveResourcesInfo(),
}

for await (const command of createInterface({ input: process.stdin })) {
  const answer = (await commands[command]?.()) ?? null
  process.stdout.write(`${JSON.stringify(answer)}\n`)
}
await client.dispose()
