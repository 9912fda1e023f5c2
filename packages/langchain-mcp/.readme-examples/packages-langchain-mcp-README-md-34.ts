import { InMemoryStore, MemorySaver } from '@langchain/langgraph'
import { createMcpTools } from '@x/langchain-mcp'
import { createAgent } from 'langchain'

const model = 'anthropic:claude-sonnet-4-5'
const checkpointer = new MemorySaver() // in production: a checkpointer and
const store = new InMemoryStore() // a store that outlive the process

const mcp = createMcpTools({
  servers: { shop: { url: 'https://shop.example/mcp' } },
  session: 'thread', // kept in the graph's own store
})
const agent = createAgent({ model, tools: await mcp.listTools(), checkpointer, store })
export {}
