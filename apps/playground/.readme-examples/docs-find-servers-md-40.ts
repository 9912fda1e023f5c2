import { McpClient, withOverrides } from '@x/mcp-client'

const client = new McpClient({ slug: 'shop' })
const overrides = {
  'mcpServer.shop.Shared': { name: 'Shop (test)', folderPath: 'Test' },
  'mcpServer.shop': { url: 'http://localhost:3000/mcp', headers: { 'x-tenant': 'test' } },
}
await withOverrides(overrides, () => client.callTool('cart_add', { item: 'apples' }))
export {}
