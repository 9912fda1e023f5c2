import { AIMessage, createAgent, fakeModel } from 'langchain'
import { createMcpTools } from '@x/langchain-mcp'
import { startLegacyServer } from '@x/mcp-testing'
import { expect, test } from 'vitest'

test('the agent goes on after the shop lost its session', async () => {
  await using shop = await startLegacyServer()
  await using mcp = createMcpTools({ servers: { shop: { url: shop.url } } })
  const model = fakeModel()
    .respondWithTools([{ name: 'counter_add', args: {}, id: 'call-1' }])
    .respond(new AIMessage('Done'))
  const agent = createAgent({ model, tools: await mcp.listTools() })
  shop.forgetSessions() // like a server that restarts
  const { messages } = await agent.invoke({ messages: [{ role: 'user', content: 'Count' }] })
  expect(messages.at(-1)?.text).toBe('Done')
  expect(shop.executions('counter_add')).toBe(1)
})
