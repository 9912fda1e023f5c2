import { createMcpTools } from '@x/langchain-mcp'
import { startLegacyServer } from '@x/mcp-testing'
import { expect, test } from 'vitest'

test('my agent survives a lost session', async () => {
  await using server = await startLegacyServer() // a real MCP server on a free port
  await using mcp = createMcpTools({ servers: { shop: { url: server.url } } })
  const tools = await mcp.listTools() // give them to your agent
  const add = tools.find((tool) => tool.name.endsWith('cart_add'))

  await add?.invoke({ item: 'apple' })
  server.forgetSessions() // like a server that restarts
  await add?.invoke({ item: 'pear' })

  expect(server.ledger.executions('cart_add')).toBe(2) // each call was executed once
  expect(server.count('initialize')).toBe(2) // in two sessions
})
export {}
