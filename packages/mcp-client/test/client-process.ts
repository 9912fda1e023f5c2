// A process with one client: `client-process.ts <url> <session file>`. It reads commands from standard
// input, one per line, and answers each with one line of JSON. At the end of the input it disposes of the
// client, and then exits if nothing keeps it alive.
import { flushCompileCache } from 'node:module'
import { createInterface } from 'node:readline'
import { McpClient } from '../src/index.ts'
import type { InputResume, TaskReference } from '../src/index.ts'
import { inFile } from './session-stores.ts'

const [url = '', file = ''] = process.argv.slice(2)
const client = new McpClient(
  { url },
  {
    sessionInfoFactory: inFile(file),
    capabilities: { elicitation: { form: {} } },
  },
)

const commands: Readonly<Record<string, (argument: string) => Promise<unknown>>> = {
  add: async () => (await client.callTool('counter_add')).structuredContent,
  ask: () => client.callTool('ask_twice', {}, { inputRequired: 'surface' }),
  resume: (open) => {
    const resume = JSON.parse(open) as InputResume
    return client.callTool('ask_twice', {}, { inputRequired: 'surface', resume })
  },
  task: async () => (await client.startTool('slow_compute')).task?.reference,
  wait: (reference) => client.resumeTask(JSON.parse(reference) as TaskReference).result(),
  session: () => client.getSessionId(),
  dispose: () => client.dispose(),
  resources: async () => process.getActiveResourcesInfo(),
}

flushCompileCache() // a killed process would lose the compiled code
for await (const line of createInterface({ input: process.stdin })) {
  const [command = '', argument = ''] = line.split(/ (.*)/)
  const answer = (await commands[command]?.(argument)) ?? null
  // U+2028 ends a line for `readline`, but not in JSON.
  process.stdout.write(`${JSON.stringify(answer).replaceAll('\u2028', '\\u2028')}\n`)
}
await client.dispose()
