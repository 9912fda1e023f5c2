import { StreamableHttpTransport } from '@x/mcp-transport'
import { bearer } from '@x/mcp-transport/auth'

export const transport = new StreamableHttpTransport('https://shop.example/mcp', {
  authProvider: bearer(() => process.env['SHOP_TOKEN']),
})
export {}
