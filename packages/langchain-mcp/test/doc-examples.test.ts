import { readFile } from 'node:fs/promises'
import { AIMessage, HumanMessage } from '@langchain/core/messages'
import {
  Command,
  INTERRUPT,
  isInterrupted,
  MemorySaver,
  MessagesAnnotation,
  StateGraph,
} from '@langchain/langgraph'
import { ToolNode } from '@langchain/langgraph/prebuilt'
import { startLegacyServer, startModernServer } from '@x/mcp-testing'
import { fakeModel } from 'langchain'
import { describe, expect, test } from 'vitest'
import { createMcpTools, mayDestroy } from '../src/index.ts'
import { fanOutToolCalls } from '../src/fan-out-tool-calls.ts'
import { approved, approvedAgent, book, guardedAgent } from './doc-examples.ts'

const configOf = (thread_id: string): { configurable: { thread_id: string } } => ({
  configurable: { thread_id },
})

const say = (content: string): { messages: { role: string; content: string }[] } => ({
  messages: [{ role: 'user', content }],
})

test('finds each example in its page', async () => {
  const textOf = (path: string): Promise<string> => readFile(new URL(path, import.meta.url), 'utf8')
  const flat = (text: string): string => text.replaceAll(/\s+/g, ' ').trim()
  const sources = await Promise.all(['doc-examples.ts', 'thread-agent.ts'].map(textOf))
  const regions = sources.join('').matchAll(/\/\/ #region (\S+)\n([^]*?)\/\/ #endregion/g)
  const examples = Array.from(regions, ([, page = '', example = '']) => ({ page, example }))
  expect(examples).toHaveLength(5)
  for (const { page, example } of examples) {
    const shown = example
      .replace('{ shop: { url } }', "{ shop: { url: 'https://shop.example/mcp' } }")
      .replace('SHOP_URL', "'https://shop.example/mcp'")
      .replace('export ', '')
    expect(flat(await textOf(`../../../${page}`))).toContain(flat(shown))
  }
})

test('has the test of docs/guides/testing.md among its own', async () => {
  const textOf = (path: string): Promise<string> => readFile(new URL(path, import.meta.url), 'utf8')
  const example = await textOf('agent-after-loss.test.ts')
  expect(await textOf('../../../docs/guides/testing.md')).toContain(`\`\`\`ts\n${example}\`\`\``)
})

test('runs the interceptor of docs/guides/tool-calls.md around each call', async () => {
  await using server = await startLegacyServer()
  const told: unknown[] = []
  const { agent, mcp } = guardedAgent(server.url, (...what) => told.push(what))
  await using _ = mcp
  const { messages } = await agent.invoke(say('call cart_add {"item":"pear"}'), configOf('audit'))
  expect(messages.at(-1)?.text).toBe('cart holds pear')
  expect(told).toEqual([['shop', 'cart_add', { item: 'pear' }]])
  const call = server.received.find(({ rpcMethod }) => rpcMethod === 'tools/call')
  expect(call?.headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/)
})

test("asks with LangChain's middleware before a tool that may destroy something, and only then", async () => {
  await using server = await startLegacyServer()
  await using mcp = createMcpTools({ servers: { shop: { url: server.url } } })
  const agent = approvedAgent(await mcp.listTools())
  expect(isInterrupted(await agent.invoke(say('call whoami'), configOf('read')))).toBe(false)
  const sent = server.count('tools/call')
  const decide = async (thread: string, decision: object) => {
    const stopped: object = await agent.invoke(
      say('call cart_add {"item":"pear"}'),
      configOf(thread),
    )
    expect(isInterrupted(stopped) && stopped[INTERRUPT]).toMatchObject([
      { value: { actionRequests: [{ name: 'cart_add', args: { item: 'pear' } }] } },
    ])
    expect(server.count('tools/call')).toBe(sent)
    return agent.invoke(new Command({ resume: { decisions: [decision] } }), configOf(thread))
  }
  const refused = await decide('no', { type: 'reject', message: 'Too dear' })
  expect(refused.messages.at(-2)).toMatchObject({ status: 'error', content: 'Too dear' })
  expect(server.executions('cart_add')).toBe(0)
  const { messages } = await decide('yes', { type: 'approve' })
  expect(messages.at(-1)?.text).toBe('cart holds pear')
  expect(server.executions('cart_add')).toBe(1)
})

describe('the approving interceptor, in a graph with a plain ToolNode', () => {
  const graphOf = async (url: string, items: readonly string[]) => {
    const mcp = createMcpTools({ servers: { shop: { url } }, interceptors: [approved] })
    const tool_calls = items.map((item, index) => ({
      type: 'tool_call' as const,
      id: `c${index}`,
      name: 'cart_add',
      args: { item },
    }))
    const graph = new StateGraph(MessagesAnnotation)
      .addNode('model', ({ messages }) => ({
        messages: [new AIMessage({ content: '', tool_calls: messages[1] ? [] : tool_calls })],
      }))
      .addNode('tools', new ToolNode(await mcp.listTools()))
      .addEdge('__start__', 'model')
      .addEdge('tools', 'model')
      .addConditionalEdges('model', fanOutToolCalls(), ['tools', '__end__'])
      .compile({ checkpointer: new MemorySaver() })
    const interruptsIn = (state: object): { id?: string; value?: unknown }[] =>
      isInterrupted(state) ? state[INTERRUPT] : []
    return {
      start: async () =>
        interruptsIn(await graph.invoke({ messages: [new HumanMessage('buy')] }, configOf('t1'))),
      resume: (answers: Record<string, string>) =>
        graph.invoke(
          new Command<unknown, Record<string, unknown>, never>({ resume: answers }),
          configOf('t1'),
        ),
      [Symbol.asyncDispose]: () => mcp.close(),
    }
  }

  test('sends each call only after its own approval', async () => {
    await using server = await startLegacyServer()
    await using graph = await graphOf(server.url, ['pear', 'gold'])
    const [pear, gold] = await graph.start()
    expect([pear?.value, gold?.value]).toEqual([
      { call: 'c0', name: 'cart_add', args: { item: 'pear' } },
      { call: 'c1', name: 'cart_add', args: { item: 'gold' } },
    ])
    expect(server.count('tools/call')).toBe(0)
    const { messages } = await graph.resume({
      [pear?.id ?? '']: 'approve c0',
      [gold?.id ?? '']: 'approve c0', // the approval of the other call
    })
    expect(messages.slice(-3, -1)).toMatchObject([
      { status: 'success', content: 'cart holds pear' },
      { status: 'error', content: expect.stringContaining('did not approve') },
    ])
    expect(server.executions('cart_add')).toBe(1)
  })
})

test.each([
  [undefined, true],
  [{}, true],
  [{ readOnlyHint: true }, false],
  [{ readOnlyHint: true, destructiveHint: true }, false],
  [{ destructiveHint: false }, false],
  [{ readOnlyHint: false, destructiveHint: true }, true],
] as const)('a tool with annotations %j may destroy something: %s', (annotations, expected) => {
  expect(mayDestroy({ name: 'tool', annotations })).toBe(expected)
})

test('runs the loop of docs/guides/approvals.md', async () => {
  await using server = await startModernServer()
  await using mcp = createMcpTools({ servers: { hotel: { url: server.url } } })
  const model = fakeModel()
    .respondWithTools([{ name: 'confirm', args: {}, id: 'call-0' }])
    .respond(new AIMessage('Booked'))
  const asked: unknown[] = []
  const messages = await book({ model, tools: await mcp.listTools() }, async (requests) => {
    asked.push(requests)
    return { confirmation: { action: 'accept', content: { confirmed: true } } }
  })
  expect(asked).toMatchObject([{ confirmation: { method: 'elicitation/create' } }])
  expect(JSON.stringify(messages)).toContain('Booked')
  expect(server.executions('confirm')).toBe(1)
})

test('ends that loop if only other interrupts wait, such as an approval', async () => {
  await using server = await startModernServer()
  await using mcp = createMcpTools({
    servers: { hotel: { url: server.url } },
    interceptors: [approved],
  })
  const model = fakeModel().respondWithTools([{ name: 'confirm', args: {}, id: 'call-0' }])
  const tools = await mcp.listTools()
  await book({ model, tools }, () => Promise.reject(new Error('Nobody is asked here')))
  expect(server.executions('confirm')).toBe(0)
})
