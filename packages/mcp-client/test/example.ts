import { McpClient, McpClientError } from '@x/mcp-client'
import { startLegacyServer } from '@x/mcp-testing' // takes the place of your server

await using shop = await startLegacyServer()
await using client = new McpClient({ url: shop.url }) // opens nothing yet

for (const item of ['apple', 'pear']) {
  try {
    const { content } = await client.callTool('cart_add', { item }) // opens a session if it needs one
    console.log(content)
  } catch (error) {
    if (!McpClientError.is(error) || error.outcome !== 'unknown') throw error
    console.log(`Look for the ${item} before you add it again`)
  }
  shop.forgetSessions() // like a server that restarts
}
