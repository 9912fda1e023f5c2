import type { BaseChatModel } from '@langchain/core/language_models/chat_models'
import { HumanMessage } from '@langchain/core/messages'
import type { StructuredToolInterface } from '@langchain/core/tools'
import { MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'
import { ToolNode } from '@langchain/langgraph/prebuilt'
import { createMcpToolsFromAgent } from '@x/langchain-mcp'
import type { AgentDefinition, CreateMcpClient } from '@x/langchain-mcp'
import { fanOutToolCalls } from '@x/langchain-mcp/langgraph'
import { McpClient } from '@x/mcp-client'
import type { McpServerDirectory } from '@x/mcp-client'
import type { GraphDefinition } from '@x/mcp-gateway'
import type { SessionOptions } from '../../agent/execution-type.ts'

/** Where servers are, and what becomes of their sessions. */
export type ClientOptions = SessionOptions & { readonly directory: McpServerDirectory }

export interface BuildAgentOptions {
  readonly definition: AgentDefinition
  readonly model: BaseChatModel
  /**
   * Makes the client of each server that the definition names, or says how it is made: where the
   * directory is, which is asked at the first call, and what becomes of sessions.
   */
  readonly clients: CreateMcpClient<McpClient> | ClientOptions
  /** Beside those of the servers. @default none */
  readonly tools?: readonly StructuredToolInterface[] | undefined
}

/** A LangGraph agent as an `agent.json` describes it. */
export interface Agent extends AsyncDisposable {
  /** One turn: what the user says, and what the agent answers in the end. */
  ask(text: string): Promise<string>
  /** As a gateway can offer it. Absent where only `ask` knows what belongs to one run. */
  readonly offer?: GraphDefinition | undefined
}

/**
 * Model and tools in a loop. Building makes no request: servers are found, and sessions opened or
 * resumed, when the model first calls one of their tools.
 */
export async function buildAgent(options: BuildAgentOptions): Promise<Agent> {
  const { definition, model, clients: given, tools: others = [] } = options
  const createClient: CreateMcpClient<McpClient> =
    typeof given === 'function' ? given : (server) => new McpClient(server, given)
  const { tools: own, clients } = await createMcpToolsFromAgent(definition, {
    createClient,
    onToolError: 'throw', // a script makes nothing of a failure: leave this out for a model that reads it
  })
  const tools = [...own, ...others]
  const bound = model.bindTools?.(tools)
  if (bound === undefined) throw new TypeError('The model cannot call tools')
  const system = (definition.messages ?? []).map(({ role, content }) => ({ role, content }))
  const graph = new StateGraph(MessagesAnnotation)
    .addNode('agent', async ({ messages }) => ({
      messages: [await bound.invoke([...system, ...messages])],
    }))
    .addNode('tools', new ToolNode(tools, { handleToolErrors: false })) // this too, for the same reason
    .addEdge(START, 'agent')
    .addConditionalEdges('agent', fanOutToolCalls())
    .addEdge('tools', 'agent')
    .compile()
  const recursionLimit = definition.settings?.maxIterations ?? 25
  const { name = 'agent' } = definition
  const abilities = tools.map((tool) => tool.name).join(', ')
  const description = `Takes a request in plain words. It can use ${abilities}.`
  return {
    offer: { graph, name, description, recursionLimit },
    async ask(text) {
      const { messages } = await graph.invoke(
        { messages: [new HumanMessage(text)] },
        { recursionLimit },
      )
      return messages.at(-1)?.text ?? ''
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(clients.map((client) => client.dispose()))
    },
  }
}
