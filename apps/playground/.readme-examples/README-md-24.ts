import { McpClient } from '@x/mcp-client'
import { loadMcpTools } from '@x/langchain-mcp'
import { SessionInfoDebugStateFactory } from '@x/agents-debugstate'
import { createAgent } from 'langchain'

const shop = new McpClient(
  { url: 'https://shop.example/mcp' },
  { sessionInfoFactory: new SessionInfoDebugStateFactory() }, // address and token from the environment
)
const agent = createAgent({
  model: 'anthropic:claude-sonnet-4-5',
  tools: await loadMcpTools(shop),
})
await agent.invoke({ messages: [{ role: 'user', content: 'Add two apples to my cart' }] })
// The server restarts: the next call opens a new session and arrives. This process is killed: the next
// one goes on with the same session, and its first request is the call itself.
export {}
