// Serves uploads and downloads over HTTP until its input ends; `GET /memory` tells the most memory it ever had,
// and `PUT /discard` takes bytes and does nothing with them.
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { once } from 'node:events'
import { Readable } from 'node:stream'
import { artifactDownload } from '../src/artifacts/artifact-download.ts'
import { ArtifactLinks } from '../src/artifacts/artifact-links.ts'
import { artifactUpload } from '../src/artifacts/artifact-upload.ts'
import { Artifacts } from '../src/artifacts/artifacts.ts'
import { UploadTickets } from '../src/artifacts/upload-tickets.ts'
import { DiskGatewayStore } from '../src/store/disk-gateway-store.ts'
import { RedisGatewayStore } from '../src/store/redis/redis-gateway-store.ts'

const [, , where = ''] = process.argv
const store = where.startsWith('redis:')
  ? new RedisGatewayStore({ url: where, timeoutMs: 20_000 })
  : new DiskGatewayStore(where)
const artifacts = new Artifacts({ store, key: 'key' })
const caller = { principal: { id: 'ada', isAnonymous: false, scopes: [], claims: {} } }
const baseUrl = (): string => 'http://127.0.0.1/artifacts'
const links = new ArtifactLinks({ baseUrl, key: 'key' })
const tickets = new UploadTickets({ values: store.values, baseUrl })
const handlers = [artifactDownload({ artifacts, links }), artifactUpload({ artifacts, tickets })]

async function answer(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  if (incoming.url === '/memory') {
    outgoing.end(String(process.resourceUsage().maxRSS))
    return
  }
  if (incoming.url === '/discard') {
    for await (const chunk of incoming) void chunk
    outgoing.end()
    return
  }
  const body = incoming.method === 'PUT' ? Readable.toWeb(incoming) : null
  const init = { method: incoming.method ?? 'GET', body, duplex: 'half' as const }
  for (const handle of handlers) {
    const response = await handle(new Request(`http://127.0.0.1${incoming.url}`, init), caller)
    if (!response) continue
    outgoing.writeHead(response.status, Object.fromEntries(response.headers))
    for await (const chunk of response.body ?? []) {
      if (!outgoing.write(chunk)) await once(outgoing, 'drain')
    }
    outgoing.end()
    return
  }
}

const server = createServer((incoming, outgoing) => {
  answer(incoming, outgoing).catch((error: unknown) => process.stderr.write(`${String(error)}\n`))
})
server.listen(0, '127.0.0.1')
await once(server, 'listening')
const address = server.address()
process.stdout.write(`${typeof address === 'object' ? address?.port : ''}\n`)
await once(process.stdin.resume(), 'end')
server.closeAllConnections()
server.close()
await artifacts.close()
await store.close()
