// The examples of the documents, as functions that doc-examples.test.ts runs. It also finds each one in its page.
import type { StructuredTool } from '@langchain/core/tools'
import { Command, interrupt, INTERRUPT, isInterrupted, MemorySaver } from '@langchain/langgraph'
import {
  createMcpTools,
  elicitationResume,
  isElicitationInterrupt,
  mayDestroy,
  type ElicitationAnswer,
  type McpTool,
  type McpTools,
  type ToolInterceptor,
} from '@x/langchain-mcp'
import { interruptOnFrom, mcpToolsMiddleware } from '@x/langchain-mcp/middleware'
import * as langchain from 'langchain'
import {
  createAgent,
  type AgentMiddleware,
  type fakeModel,
  type InterruptOnConfig,
} from 'langchain'
import { ScriptedModel } from './scripted-model.ts'

const checkpointer = new MemorySaver()
type Agent = ReturnType<typeof createAgent>

/** Its types do not fit `exactOptionalPropertyTypes`. */
const humanInTheLoopMiddleware = langchain.humanInTheLoopMiddleware as unknown as (options: {
  interruptOn: Record<string, InterruptOnConfig>
}) => AgentMiddleware

export function guardedAgent(
  url: string,
  audit: (...what: unknown[]) => void,
): { readonly agent: Agent; readonly mcp: McpTools } {
  const model = new ScriptedModel()
  // #region docs/guides/tool-calls.md
  const audited: ToolInterceptor = async (request, next) => {
    const answer = await next({ headers: { 'x-request-id': crypto.randomUUID() } })
    audit(request.server.name, request.tool.name, request.withoutSecrets(request.args))
    return answer
  }

  const mcp = createMcpTools({
    servers: { shop: { url } },
    allow: ({ origin }) => !origin.toolName.startsWith('admin_'), // the name on the server
    pin: 'first-use', // a tool that is silently redefined is not called
    interceptors: [audited],
  })
  const agent = createAgent({ model, middleware: [mcpToolsMiddleware(mcp)], checkpointer })
  // #endregion
  return { agent, mcp }
}

export function approvedAgent(tools: McpTool[]): Agent {
  const model = new ScriptedModel()
  // #region docs/guides/approvals.md
  const approval = humanInTheLoopMiddleware({ interruptOn: interruptOnFrom(tools) })
  const agent = createAgent({ model, tools, middleware: [approval], checkpointer })
  // #endregion
  return agent
}

// #region docs/guides/approvals.md
export const approved: ToolInterceptor = (request, next) => {
  if (!mayDestroy(request.tool)) return next()
  const { name, args, config } = request
  const call = config.toolCall?.id
  const answer: unknown = interrupt({ call, name, args: request.withoutSecrets(args) })
  if (answer === `approve ${call}`) return next()
  const text = `A person did not approve the call of "${name}". Do not repeat it.`
  return { content: [{ type: 'text', text }], isError: true }
}
// #endregion

export async function book(
  { model, tools }: { model: ReturnType<typeof fakeModel>; tools: StructuredTool[] },
  askPeople: (requests: unknown) => Promise<Record<string, ElicitationAnswer>>,
): Promise<unknown> {
  const agent = createAgent({ model, tools, checkpointer: new MemorySaver() })
  const config = { configurable: { thread_id: 't1' } }
  // #region docs/guides/approvals.md
  let state = await agent.invoke({ messages: [{ role: 'user', content: 'Book a room' }] }, config)
  while (isInterrupted(state)) {
    let resume = {}
    for (const asked of state[INTERRUPT]) {
      if (!isElicitationInterrupt(asked.value)) continue
      const answers = await askPeople(asked.value.inputRequests) // hours later, if need be
      resume = { ...resume, ...elicitationResume(asked, answers) }
    }
    if (Object.keys(resume).length === 0) break // other interrupts wait, such as approvals
    state = await agent.invoke(new Command({ resume }), config) // the same calls go on
  }
  // #endregion
  return state.messages
}
