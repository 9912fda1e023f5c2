import { createMcpTools, runInSessionScope } from '@x/langchain-mcp'
import { createAgent } from 'langchain'

await using mcp = createMcpTools({
  servers: {
    shop: {
      url: 'https://shop.example/mcp',
      headers: ({ configurable }) => ({ authorization: `Bearer ${configurable['token']}` }),
    },
  },
  session: 'run',
  principal: ({ configurable }) => configurable?.['user'],
})
const config = { configurable: { user: 'ada', token: process.env['ADA_TOKEN'] } }
const tools = await mcp.listTools({ config })
const agent = createAgent({ model: 'anthropic:claude-sonnet-4-5', tools })
const messages = [{ role: 'user', content: 'Add two apples' }]
await runInSessionScope(() => agent.invoke({ messages }, config)) // one session, which ends here
export {}
