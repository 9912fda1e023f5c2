import { isAIMessage, isToolMessage, type BaseMessage } from '@langchain/core/messages'
import { END, Send } from '@langchain/langgraph'
import { check } from '@x/internal'
import type { Checks } from '@x/internal'
import { assertOptions } from '../option-check.ts'

export interface FanOutToolCallsOptions {
  /** Name of the `ToolNode`. @default 'tools' */
  readonly tools?: string | undefined
  /** Where to go when the model calls no tool. @default the end of the graph */
  readonly otherwise?: string | undefined
}

const optionChecks: Checks<FanOutToolCallsOptions> = { tools: check.text, otherwise: check.text }

/**
 * A conditional edge from the model to a `ToolNode`, by which each call becomes a task of its own: one that
 * is interrupted, or fails, has none of the others executed again.
 *
 * ```ts
 * graph.addNode('tools', new ToolNode(tools)).addConditionalEdges('model', fanOutToolCalls())
 * ```
 *
 * @throws {McpClientError} `CONFIG` for options that are unknown or have a wrong value
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
    return calls.map((call) => new Send(tools, { ...state, lg_tool_call: call }))
  }
}
