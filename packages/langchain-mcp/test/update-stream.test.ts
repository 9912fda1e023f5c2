// What a user interface sees of a graph: no round of a call, and nothing that a server sent for itself.
import { AIMessage, isToolMessage } from '@langchain/core/messages'
import { Command, MemorySaver, MessagesAnnotation, StateGraph } from '@langchain/langgraph'
import { ToolNode } from '@langchain/langgraph/prebuilt'
import { McpClient } from '@x/mcp-client'
import { startModernServer } from '@x/mcp-testing'
import { createAgent, fakeModel } from 'langchain'
import { describe, expect, test } from 'vitest'
import { elicitationToInterrupt, loadMcpTools } from '../src/index.ts'
import { fanOutToolCalls } from '../src/fan-out-tool-calls.ts'
import { startAskingServer } from './asking-server.ts'

type Tools = ConstructorParameters<typeof ToolNode>[0]

const kinds = {
  createAgent: (tools: Tools, call: AIMessage) =>
    createAgent({
      model: fakeModel()
        .respond(call)
        .respond(new AIMessage('done'))
        .respond(new AIMessage('done')),
      tools: tools as [],
      checkpointer: new MemorySaver(),
    }).graph,
  fanOutToolCalls: (tools: Tools, call: AIMessage) =>
    new StateGraph(MessagesAnnotation)
      .addNode('model', ({ messages }) => ({
        messages: [messages.some(isToolMessage) ? new AIMessage('done') : call],
      }))
      .addNode('tools', new ToolNode(tools))
      .addEdge('__start__', 'model')
      .addConditionalEdges('model', fanOutToolCalls())
      .addEdge('tools', 'model')
      .compile({ checkpointer: new MemorySaver() }),
  subgraph: (tools: Tools, call: AIMessage) =>
    new StateGraph(MessagesAnnotation)
      .addNode('agent', kinds.createAgent(tools, call))
      .addEdge('__start__', 'agent')
      .compile({ checkpointer: new MemorySaver() }),
}

const modes = ['updates', 'debug', 'tasks', 'values', 'messages', 'custom', 'checkpoints'] as const
const cases = (Object.keys(kinds) as (keyof typeof kinds)[]).flatMap((kind) =>
  (['modern', 'legacy'] as const).map((era) => ({ kind, era })),
)

describe.each(cases)('$kind, a server of the $era era', ({ kind, era }) => {
  test.each(modes)('%s shows no rounds of a call', async (streamMode) => {
    await using server = era === 'modern' ? await startModernServer() : await startAskingServer()
    const elicitation = elicitationToInterrupt()
    await using client = new McpClient({ url: server.url }, { handlers: elicitation.handlers })
    const tools = await loadMcpTools(client, { elicitation })
    const name = era === 'modern' ? 'confirm' : 'ask'
    const args = { question: 'Ada?' }
    const call = new AIMessage({
      content: '',
      tool_calls: [{ type: 'tool_call', id: 'call-0', name, args }],
    })
    const graph = kinds[kind](tools, call)
    const shown: unknown[] = []
    const config = { configurable: { thread_id: 't1' }, streamMode, subgraphs: true }
    const run = async (input: unknown): Promise<void> => {
      const stream = await graph.stream(input as Parameters<typeof graph.stream>[0], config)
      for await (const chunk of stream) shown.push(chunk)
    }
    await run({ messages: [{ role: 'user', content: 'go' }] })
    const { tasks } = await graph.getState(config, { subgraphs: true })
    expect(JSON.stringify(tasks)).toContain('mcp_elicitation') // the question waits
    const key = JSON.stringify(tasks).match(/"key":"([^"]+)"/)?.[1]
    const content = { value: 'Ada', name: 'Ada' }
    const responses = { confirmation: { action: 'accept', content } }
    const answer = era === 'modern' ? responses : { 'question-1': responses.confirmation }
    await run(new Command({ resume: { key, responses: answer } }))
    expect(JSON.stringify(await graph.getState(config))).toContain('done')
    expect(shown.length > 1 || streamMode === 'custom').toBe(true)
    const text = JSON.stringify(shown)
    expect(text).not.toContain('mcp:')
    expect(text).not.toContain('requestState')
    expect(text).not.toContain('isHeld')
  })
})
