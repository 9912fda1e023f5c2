import { McpClient, McpClientError } from '@x/mcp-client'

const url = process.argv[2] ?? 'https://shop.example/mcp'
await using client = new McpClient({ url }) // opens nothing yet

try {
  const { content } = await client.callTool('cart_add', { item: 'apple' }) // opens the session first
  process.stdout.write(`${JSON.stringify(content)}\n`)
} catch (error) {
  if (!McpClientError.is(error) || error.outcome !== 'unknown') throw error
  process.stdout.write('It may have been added: look before you add it again\n')
}
export {}
