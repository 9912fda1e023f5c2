// A program of a user: the SDK's client, v1 or v2, on a session in a file. One call for each line it reads.
import { createInterface } from 'node:readline'
import { FileSessionInfo, StreamableHttpTransport } from '@x/mcp-transport'

const [sdk = 'v1', url = '', file = ''] = process.argv.slice(2)
const { Client } =
  sdk === 'v1'
    ? await import('@modelcontextprotocol/sdk/client/index.js')
    : await import('@modelcontextprotocol/client')
const transport = new StreamableHttpTransport(url, {
  sessionInfo: new FileSessionInfo(file),
  onSessionLost: 'reinitialize',
})
const client = new Client({ name: 'app', version: '1.0.0' })
await client.connect(transport)
for await (const name of createInterface(process.stdin)) {
  const { structuredContent } = await client.callTool({ name })
  const { isResumed, epoch } = transport
  process.stdout.write(`${JSON.stringify({ ...Object(structuredContent), isResumed, epoch })}\n`)
}
await client.close()
