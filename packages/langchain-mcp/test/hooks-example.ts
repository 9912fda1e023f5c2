import { MemorySaver } from '@langchain/langgraph'
import { createMcpTools, type McpTools, type ToolInterceptor } from '@x/langchain-mcp'
import { mcpToolsMiddleware } from '@x/langchain-mcp/middleware'
import { createAgent } from 'langchain'
import { ScriptedModel } from './scripted-model.ts'

const model = new ScriptedModel()
const checkpointer = new MemorySaver()

interface GuardedAgent {
  readonly agent: ReturnType<typeof createAgent>
  readonly mcp: McpTools
}

export function guardedAgent(url: string, audit: (...what: unknown[]) => void): GuardedAgent {
  // #region readme
  const audited: ToolInterceptor = async (request, next) => {
    const answer = await next({ headers: { 'x-request-id': crypto.randomUUID() } })
    audit(request.server.name, request.tool.name, request.withoutSecrets(request.args))
    return answer
  }

  const mcp = createMcpTools({
    servers: { shop: { url } },
    deny: [{ server: 'shop', tool: 'admin_*' }], // by the names on the server
    pin: 'first-use', // a tool that is silently redefined is not called
    approve: 'destructive', // asks a person first, by an interrupt of the graph
    interceptors: [audited],
  })
  const agent = createAgent({ model, middleware: [mcpToolsMiddleware(mcp)], checkpointer })
  // #endregion
  return { agent, mcp }
}
