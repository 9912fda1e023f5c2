// A program of a user: the client of SDK v1 or v2 with a session in a file. Makes one call for each line of input.
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
