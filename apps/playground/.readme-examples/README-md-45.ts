import { bearerAuth, createGateway } from '@x/mcp-gateway'
import { createAgent } from 'langchain'

const agent = createAgent({ model: 'anthropic:claude-sonnet-4-5', tools: [] })

const gateway = createGateway({
  agents: { support: { graph: agent.graph, description: 'Answers order questions' } },
  auth: bearerAuth(process.env.MCP_TOKEN),
})
const { url } = await gateway.listen({ port: 8000 }) // or mount gateway.fetch, or serve a pipe
export {}
