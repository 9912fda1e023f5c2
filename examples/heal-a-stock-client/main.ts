import { startLegacyServer } from '@x/mcp-testing'
import { connect, connectSdk2 } from './connect.ts'

await using server = await startLegacyServer() // in your program: the URL of your server
const clients = [await connect(server.url), await connectSdk2(server.url)]

async function addToCart(item: string): Promise<void> {
  for (const [index, client] of clients.entries()) {
    const { structuredContent } = await client.callTool({ name: 'cart_add', arguments: { item } })
    console.log(`SDK ${index + 1}: ${JSON.stringify(structuredContent)}`)
  }
}

await addToCart('apples')
server.forgetSessions() // as a server does that restarts
console.log('The server has lost its sessions.')
await addToCart('pears')

for (const client of clients) await client.close()
