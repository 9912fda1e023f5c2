import { McpClient } from '@x/mcp-client'

const client = new McpClient({ url: 'https://shop.example/mcp' }, { maxRetries: 3 })
await client.callTool('pay', { order: 17 }, { idempotencyKey: 'order-17' })
export {}
