import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { createGateway, type AgentSource } from '@x/mcp-gateway'

const painter: AgentSource = {
  name: 'painter',
  isLocal: true,
  async start(listener) {
    const description = 'Paints what it is told'
    listener.found({ id: 'paint', name: 'paint', description, skills: [], health: 'healthy' })
  },
  async *run({ input }) {
    for (const { name, size } of input.files) {
      yield { type: 'text', text: `By ${name} (${size} bytes).` }
    }
    const data = Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"/>')
    yield { type: 'file', file: { name: 'circles.svg', data } }
    yield { type: 'done' }
  },
  async close() {},
}
const gateway = createGateway({
  sources: [painter],
  inline: { resultMaxBytes: 200_000 },
  resultTtlMs: 3_600_000,
  artifacts: { quota: 50_000_000 },
})
const { url } = await gateway.listen({ port: 0 })
const put = { method: 'PUT', body: 'two circles' }
const uploaded = await fetch(new URL('/artifacts/wishes.txt', url), put)
const { uri } = JSON.parse(await uploaded.text()) // for `files` of calls

const client = new Client({ name: 'example', version: '1.0.0' })
await client.connect(new StreamableHTTPClientTransport(new URL(url)))
const call = { name: 'paint', arguments: { message: 'Paint', files: [uri] } }
const { content } = await client.callTool(call)
for (const block of content) {
  if (block.type === 'text') process.stdout.write(`${block.text}\n`)
  if (block.type === 'resource') process.stdout.write(`${block.resource.uri}\n`)
}
await client.close()
await gateway.close()
