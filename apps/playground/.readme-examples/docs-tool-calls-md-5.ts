import { MemorySaver } from '@langchain/langgraph'
import { createMcpTools, type ToolInterceptor } from '@x/langchain-mcp'
import { mcpToolsMiddleware } from '@x/langchain-mcp/middleware'
import { createAgent } from 'langchain'

const model = 'anthropic:claude-sonnet-4-5'
const checkpointer = new MemorySaver()
const audit = console.log

const audited: ToolInterceptor = async (request, next) => {
  const answer = await next({ headers: { 'x-request-id': crypto.randomUUID() } })
  audit(request.server.name, request.tool.name, request.withoutSecrets(request.args))
  return answer
}

const mcp = createMcpTools({
  servers: { shop: { url: 'https://shop.example/mcp' } },
  allow: ({ origin }) => !origin.toolName.startsWith('admin_'), // the name on the server
  pin: 'first-use', // a tool that is silently redefined is not called
  interceptors: [audited],
})
const agent = createAgent({ model, middleware: [mcpToolsMiddleware(mcp)], checkpointer })
export {}
