// Tools that ask a person in graphs that other packages build.
import type { BaseMessage } from '@langchain/core/messages'
import { AIMessage, isToolMessage } from '@langchain/core/messages'
import { Command, INTERRUPT, isInterrupted, MemorySaver } from '@langchain/langgraph'
import { createSupervisor } from '@langchain/langgraph-supervisor'
import { createSwarm } from '@langchain/langgraph-swarm'
import { startModernServer } from '@x/mcp-testing'
import { createDeepAgent } from 'deepagents'
import { createAgent, fakeModel } from 'langchain'
import { expect, test } from 'vitest'
import { createMcpTools, elicitationResume, type McpTool } from '../src/index.ts'
import type { Turn } from './asking-graph.ts'

type Model = ReturnType<typeof fakeModel>
type Call = NonNullable<AIMessage['tool_calls']>[number]

interface Invokable {
  invoke(input: never, config: object): Promise<unknown>
}

const call = (id: string, name: string, args: Record<string, unknown> = {}): Call => ({
  type: 'tool_call',
  id,
  name,
  args,
})

/** A model that makes these calls at its first turn, and then says `done`. */
function modelOf(calls: readonly Call[]): Model {
  const ids = new Set(calls.map(({ id }) => id))
  const answer = (messages: BaseMessage[]): AIMessage =>
    messages.some((one) => isToolMessage(one) && ids.has(one.tool_call_id))
      ? new AIMessage('done')
      : new AIMessage({ content: '', tool_calls: [...calls] })
  return Array.from({ length: 8 }).reduce<Model>((model) => model.respond(answer), fakeModel())
}

const asking = (): Model =>
  modelOf([
    call('pay', 'add', { a: 1, b: 2 }),
    call('ask-1', 'confirm', { question: 'Ada?' }),
    call('ask-2', 'confirm', { question: 'Bob?' }),
  ])

const kinds: Readonly<Record<string, (tools: McpTool[], checkpointer: MemorySaver) => Invokable>> =
  {
    'a deep agent': (tools, checkpointer) =>
      createDeepAgent({ model: asking(), tools, checkpointer }),
    'a sub-agent of a deep agent': (tools, checkpointer) =>
      createDeepAgent({
        model: modelOf([
          call('delegate', 'task', { subagent_type: 'shopper', description: 'Ask them' }),
        ]),
        subagents: [
          {
            name: 'shopper',
            description: 'Asks people',
            systemPrompt: 'Ask people',
            model: asking(),
            tools,
          },
        ],
        checkpointer,
      }),
    'an agent of a supervisor': (tools, checkpointer) =>
      createSupervisor({
        agents: [createAgent({ name: 'shopper', model: asking(), tools }).graph as never],
        llm: modelOf([call('handoff', 'transfer_to_shopper')]) as never,
      }).compile({ checkpointer }),
    'an agent of a swarm': (tools, checkpointer) =>
      createSwarm({
        agents: [createAgent({ name: 'shopper', model: asking(), tools }).graph as never],
        defaultActiveAgent: 'shopper',
      }).compile({ checkpointer }),
  }

test.each(Object.entries(kinds))(
  'the questions of two calls in %s are answered one by one, and each call is executed once',
  async (_what, graphOf) => {
    await using server = await startModernServer()
    await using mcp = createMcpTools({ servers: { shop: { url: server.url } } })
    const graph = graphOf(await mcp.listTools(), new MemorySaver())
    const config = { configurable: { thread_id: 't1' } }
    const told = new Set<unknown>()
    let state = await graph.invoke({ messages: [{ role: 'user', content: 'go' }] } as never, config)
    for (let turns = 0; isInterrupted(state); turns++) {
      expect(turns).toBeLessThan(8)
      const [one] = state[INTERRUPT] as Turn['interrupts']
      if (one === undefined) throw new Error('It stopped without a question')
      const [[key, { message }] = ['', {}]] = Object.entries(one.value.requests)
      told.add(message)
      const content = { value: `I am ${String(message)}` }
      const resume = elicitationResume(one, { [key]: { action: 'accept', content } })
      state = await graph.invoke(new Command({ resume }) as never, config)
    }
    expect(told).toEqual(new Set(['Ada?', 'Bob?']))
    expect(server.executions('add')).toBe(1)
    expect(server.executions('confirm')).toBe(2)
    expect(server.ledger.received('confirm')).toBe(4)
  },
)
