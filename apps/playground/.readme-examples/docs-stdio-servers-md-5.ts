import { McpClient } from '@x/mcp-client'

const client = new McpClient({
  command: 'npx',
  args: ['-y', '@example/shop-mcp'],
  env: { SHOP_TOKEN: process.env.SHOP_TOKEN ?? '' },
})
export {}
