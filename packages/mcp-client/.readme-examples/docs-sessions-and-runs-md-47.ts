import { McpClient, runInSessionScope } from '@x/mcp-client'

const shop = new McpClient('https://shop.example/mcp', { scope: 'run' }) // serves all runs

await runInSessionScope(async () => {
  await shop.callTool('cart_add', { item: 'apple' }) // opens the session of this run
  await Promise.all([shop.callTool('cart_show'), shop.listTools()]) // the same session
}) // the session ends here
export {}
