// The server, in a process of its own: `control`, or `service <file>`.
import { createServer } from 'node:http'
import { cpuUs, listen, serve } from '../measure/worker.ts'
import { AGENT_IDS, SEED, TOKENS } from './workloads.ts'

const [, , kind, file = ''] = process.argv
const port = kind === 'service' ? await startService() : await startControl()

const api = { port: () => port, cpu: cpuUs }
export type ServerApi = typeof api
serve(api)

/** The service with tokens, on SQLite. */
async function startService(): Promise<number> {
  const { createDebugStateServer, SqliteDebugStateStore } =
    await import('@x/agents-debugstate/server')
  const store = new SqliteDebugStateStore(file)
  const tokens = TOKENS.map((token, index) => ({ token, agentIds: [AGENT_IDS[index] ?? ''] }))
  const server = createDebugStateServer({ store, tokens })
  return Number(new URL(await server.listen()).port)
}

/** A `node:http` server that reads the same bodies and answers with the same bytes, and does nothing else. */
async function startControl(): Promise<number> {
  const plain = { 'cache-control': 'no-store', etag: '"0f8fad5b-d9cb-469f-a165-70867728950e"' }
  const body = Buffer.from(SEED)
  const type = { 'content-type': 'text/plain; charset=utf-8', 'content-length': body.byteLength }
  const headers = { ...plain, ...type }
  const server = createServer((request, response) => {
    if (request.method === 'GET') {
      response.writeHead(200, headers).end(body)
      return
    }
    let bytes = 0
    request.on('data', (chunk: Buffer) => (bytes += chunk.byteLength))
    request.once('end', () => response.writeHead(bytes > 0 ? 204 : 400, plain).end())
  })
  return listen(server)
}
