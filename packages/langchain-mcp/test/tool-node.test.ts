import { AIMessage, HumanMessage, type BaseMessage } from '@langchain/core/messages'
import {
  MessagesAnnotation,
  StateGraph,
  interrupt,
  MemorySaver,
  Command,
} from '@langchain/langgraph'
import { ToolNode } from '@langchain/langgraph/prebuilt'
import { expect, test } from 'vitest'
import { loadMcpTools, type McpToolSource, type ToolResult } from '../src/index.ts'

/** A server whose only tool returns the given answer. */
function shop(callTool: McpToolSource['callTool']): McpToolSource {
  return {
    listTools: () =>
      Promise.resolve([
        {
          name: 'add item',
          inputSchema: {
            type: 'object',
            properties: { item: { type: 'string' } },
            required: ['item'],
          },
        },
      ]),
    callTool,
  }
}

function asking(...calls: readonly Record<string, unknown>[]): AIMessage {
  return new AIMessage({
    content: '',
    tool_calls: calls.map((args, index) => ({
      type: 'tool_call' as const,
      id: `call-${index}`,
      name: 'add_item',
      args,
    })),
  })
}

function textResult(text: string): ToolResult {
  return { content: [{ type: 'text', text }] }
}

async function answers(source: McpToolSource, question: AIMessage): Promise<readonly unknown[]> {
  const node = new ToolNode(await loadMcpTools(source, { server: { slug: 'shop' } }))
  const state: { readonly messages: readonly BaseMessage[] } = await node.invoke({
    messages: [question],
  })
  return state.messages
}

test('answers parallel calls in order, each with its own message', async () => {
  const source = shop((_name, args) =>
    Promise.resolve(textResult(`added ${String(args?.['item'])}`)),
  )
  await expect(answers(source, asking({ item: 'apple' }, { item: 'pear' }))).resolves.toMatchObject(
    [
      { tool_call_id: 'call-0', content: 'added apple', status: 'success' },
      { tool_call_id: 'call-1', content: 'added pear', status: 'success' },
    ],
  )
})

test('stops the graph for an interrupt inside a call, and continues after it', async () => {
  const source = shop(() =>
    Promise.resolve(textResult(`approved by ${String(interrupt('May I?'))}`)),
  )
  const tools = await loadMcpTools(source)
  const graph = new StateGraph(MessagesAnnotation)
    .addNode('model', () => ({ messages: [asking({ item: 'apple' })] }))
    .addNode('tools', new ToolNode(tools))
    .addEdge('__start__', 'model')
    .addEdge('model', 'tools')
    .compile({ checkpointer: new MemorySaver() })
  const config = { configurable: { thread_id: 't1' } }
  await graph.invoke({ messages: [new HumanMessage('Buy an apple')] }, config)
  expect((await graph.getState(config)).tasks[0]?.interrupts).toMatchObject([{ value: 'May I?' }])
  const { messages } = await graph.invoke(new Command({ resume: 'Ann' }), config)
  expect(messages.at(-1)).toMatchObject({ content: 'approved by Ann', status: 'success' })
})
