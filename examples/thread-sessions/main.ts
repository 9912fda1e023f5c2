import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startLegacyServer } from '@x/mcp-testing'

await using server = await startLegacyServer() // in your program: the URL of your server
const folder = await mkdtemp(join(tmpdir(), 'threads-'))

/** Says something to an agent in a new process, and kills the process after its answer. */
async function sayAndKill(thread: string, item: string): Promise<void> {
  const agent = fork('agent-process.ts', [server.url, folder, thread, item])
  const [answer] = await once(agent, 'message')
  agent.kill('SIGKILL')
  await once(agent, 'exit')
  console.log(`${thread}: ${answer}`)
}

await sayAndKill('ada', 'apples')
await sayAndKill('bob', 'bread')
await sayAndKill('ada', 'pears')
console.log(`sessions of the two threads: ${new Set(sessionsOfCalls()).size}`)
await rm(folder, { recursive: true })

function sessionsOfCalls() {
  return server.received.filter((one) => one.rpcMethod === 'tools/call').map((one) => one.sessionId)
}
