import assert from 'node:assert/strict'
import { test } from 'node:test'
import { McpClient } from '@x/mcp-client'
import { createGateway, langGraphSource } from '@x/mcp-gateway'

test('offers the graph as a tool', async (t) => {
  const gateway = createGateway({ sources: [langGraphSource('langgraph.json')], log: false })
  t.after(() => gateway.close())
  await gateway.registry.start() // loads the graphs
  const { url } = await gateway.listen({ port: 0 })
  const client = new McpClient({ url })
  t.after(() => client.dispose())

  const { content } = await client.callTool('assistant', { message: 'Hello' })
  assert.deepEqual(content, [{ type: 'text', text: 'You said: Hello' }])
})
