// Everything exported here is public API, and needs `@langchain/langgraph`.
import './runtime-check.ts' // stays the first import
import { isAIMessage, isToolMessage, type BaseMessage } from '@langchain/core/messages'
import { END, Send } from '@langchain/langgraph'
import { check, type Checks } from '@x/internal'
import { ONE_CALL } from './graph/langgraph.ts'
import { assertOptions } from './options.ts'

interface FanOutToolCallsOptions {
  /** Name of the `ToolNode`. @default 'tools' */
  readonly tools?: string | undefined
  /** Next node if the model calls no tool. @default the end of the graph */
  readonly otherwise?: string | undefined
}

const optionChecks: Checks<FanOutToolCallsOptions> = { tools: check.text, otherwise: check.text }

/**
 * Returns a conditional edge from the model to a `ToolNode` that makes each tool call a task of its own. When
 * one call is interrupted or fails, LangGraph does not execute the others again.
 *
 * ```ts
 * graph.addNode('tools', new ToolNode(tools)).addConditionalEdges('model', fanOutToolCalls())
 * ```
 *
 * @throws {McpClientError} `CONFIG` for options that are unknown or have a wrong value
 * @example
 * ```ts
 * import { StateGraph, MessagesAnnotation, START } from '@langchain/langgraph'
 * import { ToolNode } from '@langchain/langgraph/prebuilt'
 * import { createMcpTools } from '@x/langchain-mcp'
 * import { fanOutToolCalls } from '@x/langchain-mcp/langgraph'
 *
 * const mcp = createMcpTools({ servers: { shop: { url: 'https://shop.example/mcp' } } })
 * const graph = new StateGraph(MessagesAnnotation)
 *   .addNode('model', async ({ messages }) => ({ messages })) // calls the model
 *   .addNode('tools', new ToolNode(await mcp.listTools()))
 *   .addEdge(START, 'model')
 *   .addConditionalEdges('model', fanOutToolCalls())
 *   .addEdge('tools', 'model')
 *   .compile()
 * await mcp.close()
 * ```
 */
export function fanOutToolCalls(
  options: FanOutToolCallsOptions = {},
): (state: { readonly messages: readonly BaseMessage[] }) => Send[] | string {
  assertOptions('fanOutToolCalls()', options, optionChecks)
  const { tools = 'tools', otherwise = END } = options
  return function toolCalls(state) {
    const { messages } = state
    const asking = messages.findLast(isAIMessage)
    const answered = new Set(messages.filter(isToolMessage).map((message) => message.tool_call_id))
    const calls = (asking?.tool_calls ?? []).filter(
      ({ id }) => id === undefined || !answered.has(id),
    )
    if (calls.length === 0) return otherwise
    return calls.map((call) => new Send(tools, { ...state, [ONE_CALL]: call }))
  }
}
