// Runs a gateway for uploads and downloads until its input ends. Prints its port, and the port of a second server:
// `GET /memory` returns the most memory that this process ever had, `PUT /discard` discards the body, and `GET /run`
// calls an agent that makes a file of 100 MiB.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { createGateway } from '../src/gateway.ts'
import type { AgentUpdate } from '../src/agents/agent.ts'
import { DiskGatewayStore } from '../src/store/sqlite-store.ts'
import { AgentsAtHand } from './agents-at-hand.ts'
import { redisStore } from './redis-store.ts'

const [, , where = ''] = process.argv
const store = where.startsWith('redis:')
  ? redisStore({ url: where, timeoutMs: 300_000 })
  : new DiskGatewayStore(where)

async function* pieces(): AsyncGenerator<Uint8Array> {
  for (let n = 0; n < 1600; n++) yield new Uint8Array(65_536).fill(n % 251)
}

function* make(): Iterable<AgentUpdate> {
  yield { type: 'file', file: { name: 'made.bin', data: pieces() } }
  yield { type: 'done' }
}

const gateway = createGateway({
  sources: [new AgentsAtHand({ make })],
  stateKey: 'thirty-two bytes that nobody knows',
  http: { metricsPath: '/metrics' }, // so that each transfer is counted
  store,
})
const { port, url } = await gateway.listen({ port: 0 })

async function run(): Promise<string> {
  const client = new Client({ name: 'test', version: '1.0.0' })
  await client.connect(new StreamableHTTPClientTransport(new URL(url)))
  const { content } = await client.callTool({ name: 'make', arguments: { message: 'Go' } })
  await client.close()
  return JSON.stringify(content.map(({ type }) => type))
}

async function answer(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  if (incoming.url === '/memory') outgoing.end(String(process.resourceUsage().maxRSS))
  else if (incoming.url === '/run') outgoing.end(await run())
  else {
    for await (const chunk of incoming) void chunk
    outgoing.end()
  }
}

const beside = createServer((incoming, outgoing) => {
  answer(incoming, outgoing).catch((error: unknown) => {
    process.stderr.write(`${String(error)}\n`)
    outgoing.destroy()
  })
})
beside.listen(0, '127.0.0.1')
await once(beside, 'listening')
const { port: besidePort } = beside.address() as AddressInfo
process.stdout.write(`${port} ${besidePort}\n`)
await once(process.stdin.resume(), 'end')
beside.closeAllConnections()
beside.close()
await gateway.close()
await store.close()
