import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { FileSessionInfo, StreamableHttpTransport } from '@x/mcp-transport'

const url = process.env['SHOP_URL'] ?? 'https://shop.example/mcp'
const transport = new StreamableHttpTransport(url, {
  sessionInfo: new FileSessionInfo('.mcp/shop.json'),
  onSessionLost: 'reinitialize',
})
const client = new Client({ name: 'app', version: '1.0.0' })
await client.connect(transport)
await client.listTools()
process.stdout.write(transport.isResumed ? 'the session goes on\n' : 'a new session\n')
await client.close()
