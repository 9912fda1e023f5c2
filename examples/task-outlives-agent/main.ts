import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startTaskServer } from '@x/mcp-testing'

await using server = await startTaskServer() // in your program: the URL of your server
const folder = await mkdtemp(join(tmpdir(), 'tasks-'))
const args = [server.url, join(folder, 'threads.db')]

const first = fork('agent-process.ts', [...args, 'How many stars are there?'])
await server.waitFor(({ rpcMethod }) => rpcMethod === 'tasks/get') // the agent waits for the task
first.kill('SIGKILL')
await once(first, 'exit')
console.log('The agent was killed while it waited.')

server.complete('about 10^22') // meanwhile
const second = fork('agent-process.ts', args)
const [answer] = await once(second, 'message')
await once(second, 'exit')
console.log(`The next agent says: ${answer}`)
console.log(`The tool was called ${server.count('tools/call')} time.`)
await rm(folder, { recursive: true })
