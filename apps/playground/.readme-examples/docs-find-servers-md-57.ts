import { McpClient } from '@x/mcp-client'

const client = new McpClient({
  url: 'https://shop.example/mcp',
  headers: ({ scope }) => ({
    authorization: `Bearer ${process.env[`${scope?.principal ?? 'shop'}_token`]}`,
  }),
})
export {}
