// Effects of a run on its calls, and of calls on their run.
import { AIMessage, isToolMessage } from '@langchain/core/messages'
import { tool } from '@langchain/core/tools'
import { interrupt, MemorySaver, MessagesAnnotation, StateGraph } from '@langchain/langgraph'
import { ToolNode } from '@langchain/langgraph/prebuilt'
import { McpClient, runInSessionScope } from '@x/mcp-client'
import { startEverythingServer } from '@x/internal/testing'
import { startModernServer } from '@x/mcp-testing'
import { expect, test, vi } from 'vitest'
import {
  createMcpTools,
  elicitationResume,
  elicitationToInterrupt,
  loadMcpTools,
} from '../src/index.ts'
import { fanOutToolCalls } from '../src/fan-out-tool-calls.ts'
import { askingGraph } from './asking-graph.ts'
import { startAskingServer } from './asking-server.ts'
import { startShop } from './shop.ts'

type Tools = ConstructorParameters<typeof ToolNode>[0]

function graphOf(tools: Tools, ...names: readonly string[]) {
  const calls = names.map((name, index) => ({
    type: 'tool_call' as const,
    id: `call-${index}`,
    name,
    args: {},
  }))
  return new StateGraph(MessagesAnnotation)
    .addNode('model', ({ messages }) => ({
      messages: [
        messages.some(isToolMessage)
          ? new AIMessage('done')
          : new AIMessage({ content: '', tool_calls: calls }),
      ],
    }))
    .addNode('tools', new ToolNode(tools))
    .addEdge('__start__', 'model')
    .addConditionalEdges('model', fanOutToolCalls())
    .addEdge('tools', 'model')
    .compile({ checkpointer: new MemorySaver() })
}

const go = { messages: [{ role: 'user', content: 'go' }] }
const thread = { configurable: { thread_id: 't1' } }

test.each([{ elicitation: undefined }, { elicitation: elicitationToInterrupt() }])(
  'emits progress and logs of a server in the custom stream, and as custom events of the callbacks',
  async ({ elicitation }) => {
    await using server = await startModernServer()
    await using client = new McpClient({ url: server.url })
    await client.setLoggingLevel('info')
    const tools = await loadMcpTools(client, { elicitation, server: { slug: 'shop' } })
    const graph = graphOf(tools, 'progress')
    const heard: [string, unknown][] = []
    const callbacks = [
      { handleCustomEvent: (name: string, data: unknown) => void heard.push([name, data]) },
    ]
    const streamed: unknown[] = []
    const stream = await graph.stream(go, { ...thread, callbacks, streamMode: 'custom' })
    for await (const chunk of stream) streamed.push(chunk)
    const about = { server: 'shop', tool: 'progress', toolCallId: 'call-0' }
    expect(streamed).toEqual([
      { type: 'mcp_progress', ...about, progress: 1, total: 3 },
      { type: 'mcp_progress', ...about, progress: 2, total: 3 },
      { type: 'mcp_log', ...about, level: 'info', logger: 'progress', data: 'two of three' },
      { type: 'mcp_progress', ...about, progress: 3, total: 3 },
    ])
    expect(heard.map(([, data]) => data)).toEqual(streamed)
    expect(heard.map(([name]) => name)).toContain('mcp_log')
  },
)

test('requests no progress without a listener', async () => {
  await using server = await startModernServer()
  await using client = new McpClient({ url: server.url })
  const tools = await loadMcpTools(client)
  await tools.find(({ name }) => name === 'progress')?.invoke({})
  const { params } = await server.waitFor(({ toolName }) => toolName === 'progress')
  expect(JSON.stringify(params)).not.toContain('progressToken')
})

test.each(['signal', 'stepTimeout'] as const)(
  'cancels the call of an ended run (%s) on the server',
  async (how) => {
    await using server = await startModernServer()
    const elicitation = elicitationToInterrupt()
    await using client = new McpClient({ url: server.url }, { handlers: elicitation.handlers })
    const graph = graphOf(await loadMcpTools(client, { elicitation }), 'slow')
    const aborting = new AbortController()
    if (how === 'stepTimeout') {
      graph.stepTimeout = 12_345
      const timeout = AbortSignal.timeout.bind(AbortSignal)
      vi.spyOn(AbortSignal, 'timeout').mockImplementation((ms) =>
        ms === graph.stepTimeout ? aborting.signal : timeout(ms),
      )
    }
    const { signal } = how === 'signal' ? aborting : new AbortController()
    const running = graph.invoke(go, { ...thread, signal })
    running.catch(() => {})
    await server.ledger.waitFor({ tool: 'slow', state: 'running' })
    aborting.abort(new Error('enough'))
    await expect(running).rejects.toThrow(/enough|abort|time/i)
    const run = await server.ledger.waitFor({ state: 'cancelled' })
    expect(run.tool).toBe('slow')
  },
)

test('cancels a question that a person answers too late, and ignores the late answer', async () => {
  await using server = await startAskingServer()
  const elicitation = elicitationToInterrupt({ humanTimeoutMs: 50 })
  await using client = new McpClient({ url: server.url }, { handlers: elicitation.handlers })
  const tools = await loadMcpTools(client, { elicitation })
  const graph = askingGraph({ kind: 'fanOutToolCalls', tools, calls: [{ name: 'ask' }] })
  const { interrupts } = await graph.start()
  await server.ended('ask')
  const [asked] = interrupts
  const late = elicitationResume(asked ?? {}, {
    'question-1': { action: 'accept', content: { name: 'Ada' } },
  })
  const { answers } = await graph.resume(late)
  expect(answers['call-0']?.text).toBe('Who? cancel')
})

test('reports an unknown outcome to the model if the run ends while a person is asked', async () => {
  await using server = await startAskingServer()
  await using mcp = createMcpTools({ servers: { shop: { url: server.url } }, session: 'run' })
  const tools = await mcp.listTools()
  const graph = askingGraph({ kind: 'createAgent', tools, calls: [{ name: 'ask' }] })
  const { interrupts } = await runInSessionScope(() => graph.start())
  const answer = elicitationResume(interrupts[0] ?? {}, {
    'question-1': { action: 'accept', content: { name: 'Ada' } },
  })
  const { answers } = await runInSessionScope(() => graph.resume(answer))
  expect(answers['call-0']).toMatchObject({
    status: 'error',
    content: expect.stringMatching(/may or may not have been executed/),
  })
  expect(server.calls('ask')).toBe(1)
})

test('repeats no call if another tool of the same plain ToolNode interrupts the graph', async () => {
  await using server = await startModernServer()
  const elicitation = elicitationToInterrupt()
  await using client = new McpClient({ url: server.url }, { handlers: elicitation.handlers })
  const mcp = await loadMcpTools(client, { elicitation })
  const local = tool(() => `approved: ${String(interrupt('May I?'))}`, {
    name: 'local',
    description: 'Asks by itself.',
    schema: { type: 'object', properties: {} },
  })
  const calls = [{ name: 'add', args: { a: 1, b: 2 } }, { name: 'local' }]
  const graph = askingGraph({ kind: 'ToolNode', tools: [...mcp, local], calls })
  const { interrupts } = await graph.start()
  const { answers } = await graph.resume({ [interrupts[0]?.id ?? '']: { yes: true } })
  expect(answers).toMatchObject({
    'call-0': { status: 'success' },
    'call-1': { status: 'success' },
  })
  expect(server.executions('add')).toBe(1)
})

test.each(['legacy', 'modern'] as const)(
  'answers sampling requests with the handler of the caller (%s)',
  async (era) => {
    await using server =
      era === 'legacy' ? await startEverythingServer() : await startModernServer()
    const name = era === 'legacy' ? 'trigger-sampling-request' : 'sample'
    const prompts: string[] = []
    const elicitation = elicitationToInterrupt({
      sampling: ({ messages }) => {
        prompts.push(JSON.stringify(messages))
        const content = { type: 'text', text: 'Hello, server' } as const
        return { role: 'assistant', model: 'own', content }
      },
    })
    await using client = new McpClient({ url: server.url }, { handlers: elicitation.handlers })
    const tools = await loadMcpTools(client, { elicitation })
    const asking = tools.find((one) => one.name === name)
    expect(await asking?.invoke({ prompt: 'Say hello' })).toContain('Hello, server')
    expect(prompts).toEqual([expect.stringContaining('Say hello')])
  },
)

test('shares the session of the run between sub-graphs', async () => {
  const { server, mcp } = await startShop({ session: 'run' })
  const tools = await runInSessionScope(() => mcp.listTools())
  const initialized = server.count('initialize')
  const sub = graphOf(tools, 'counter_add', 'counter_add')
  const root = new StateGraph(MessagesAnnotation)
    .addNode('one', async () => ({
      messages: (await sub.invoke(go, { configurable: { thread_id: 'a' } })).messages.slice(-1),
    }))
    .addNode('two', async () => ({
      messages: (await sub.invoke(go, { configurable: { thread_id: 'b' } })).messages.slice(-2),
    }))
    .addEdge('__start__', 'one')
    .addEdge('one', 'two')
    .compile()
  const { messages } = await runInSessionScope(() => root.invoke(go))
  expect(JSON.stringify(messages)).toContain('counter is 4')
  expect(server.count('initialize')).toBe(initialized + 1)
  expect(server.sessions).toEqual([])
})
