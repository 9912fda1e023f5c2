// The control: a bare `node:http` server that answers with the same bytes as the service and reads the same
// bodies, and does nothing else.
import { once } from 'node:events'
import { createServer } from 'node:http'
import { answerTasks } from '../bench/tasks.ts'
import { seedOf, WORKLOADS } from './workloads.ts'
import { tell } from './server-tasks.ts'

const ETAG = '"0f8fad5b-d9cb-469f-a165-70867728950e"'
const PLAIN = { 'cache-control': 'no-store', etag: ETAG }
const ID = answerOf(seedOf(WORKLOADS.get))
const RECORD = answerOf(seedOf(WORKLOADS['get-record']))

const server = createServer((request, response) => {
  if (request.method === 'GET') {
    const { headers, body } = request.url?.includes('folder-of-get-record') ? RECORD : ID
    response.writeHead(200, headers).end(body)
    return
  }
  let bytes = 0
  request.on('data', (chunk: Buffer) => (bytes += chunk.byteLength))
  request.once('end', () => response.writeHead(bytes > 0 ? 204 : 400, PLAIN).end())
})
server.listen(0, '127.0.0.1')
await once(server, 'listening')

answerTasks(async (task) => tell(task, server.address()))

function answerOf(text: string): {
  readonly headers: Readonly<Record<string, string | number>>
  readonly body: Buffer
} {
  const body = Buffer.from(text)
  const type = { 'content-type': 'text/plain; charset=utf-8', 'content-length': body.byteLength }
  return { headers: { ...PLAIN, ...type }, body }
}
