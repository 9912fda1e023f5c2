import { temporaryFolder } from '@x/internal/testing'
// Calls in graphs that a server continues as tasks (the extension io.modelcontextprotocol/tasks of 2026-07-28).
import { InMemoryStore, MemorySaver, MessagesAnnotation, StateGraph } from '@langchain/langgraph'
import { McpClient } from '@x/mcp-client'
import { startRecordingProxy, startTaskServer } from '@x/mcp-testing'
import type {
  Exchange,
  RecordingProxy,
  ScriptHandler,
  TaskServer,
  TaskServerOptions,
} from '@x/mcp-testing'
import { createAgent, fakeModel } from 'langchain'
import { AIMessage, type ToolMessage } from '@langchain/core/messages'
import { describe, expect, test, vi } from 'vitest'
import {
  createMcpTools,
  createMcpToolsFromMetadataForMcpServer,
  elicitationResume,
  isTaskInterrupt,
  type CreateMcpToolsOptions,
  type McpTool,
  type McpTools,
} from '../src/index.ts'
import { askingGraph, type AskingGraph, type Calling, type Turn } from './asking-graph.ts'
import { startGraph } from './graph-process.ts'

const KEY = 'io.github.x-mcp/idempotency-key'

interface Given extends AsyncDisposable {
  readonly server: TaskServer
  readonly proxy: RecordingProxy
  readonly mcp: McpTools
  graph(calls: readonly Calling[]): Promise<AskingGraph>
}

async function given(
  options: Partial<CreateMcpToolsOptions> = {},
  serverOptions: TaskServerOptions = {},
): Promise<Given> {
  const server = await startTaskServer(serverOptions)
  const proxy = await startRecordingProxy(server.url)
  const mcp = createMcpTools({ servers: { jobs: { url: proxy.url } }, ...options })
  return {
    server,
    proxy,
    mcp,
    async graph(calls) {
      const tools = await mcp.listTools()
      return askingGraph({ kind: 'createAgent', tools, calls, store: new InMemoryStore() })
    },
    async [Symbol.asyncDispose]() {
      await mcp.close()
      await proxy.close()
      await server[Symbol.asyncDispose]()
      expect(server.violations).toEqual([])
    },
  }
}

const isPoll = ({ rpcMethod }: Exchange): boolean => rpcMethod === 'tasks/get'

const accept = () => ({ action: 'accept' as const, content: { value: 'yes' } })

/** Resolves when a poll after the first `after` requests was answered. */
function polled(server: TaskServer, after = 0): Promise<unknown> {
  return server.waitFor(
    (one) =>
      one.rpcMethod === 'tasks/get' &&
      one.end === 'complete' &&
      server.received.indexOf(one) >= after,
  )
}

/** Resumes the interrupt of a task. */
function goOn(graph: AskingGraph, { interrupts }: Turn, signal?: AbortSignal): Promise<Turn> {
  return graph.resume({ [interrupts[0]?.id ?? '']: {} }, signal)
}

/** Accepts the question of "confirm_delete". */
function confirm(graph: AskingGraph, { interrupts: [question] }: Turn): Promise<Turn> {
  if (question === undefined) throw new Error('The server asked no question')
  return graph.resume(
    elicitationResume(question, { confirm: { action: 'accept', content: { value: 'yes' } } }),
  )
}

/** From now on, the server lists other tools than it has. */
function relist(server: TaskServer, tools: readonly object[]): void {
  const list = { result: { tools, ttlMs: 0, cacheScope: 'private' } }
  const answer = server.answers as ScriptHandler
  server.answers = (request) => (request.message.method === 'tools/list' ? list : answer(request))
}

const CHANGED = [{ name: 'slow_compute', inputSchema: { type: 'object', required: ['seed'] } }]

function keysOf({ received }: TaskServer): unknown[] {
  return received
    .filter(({ rpcMethod }) => rpcMethod === 'tools/call')
    .map(({ params = {} }) => (params['_meta'] as Record<string, unknown>)[KEY])
}

test('gives the model the result of a task, and reports its status as custom events', async () => {
  await using all = await given()
  const tools = await all.mcp.listTools()
  const call = {
    type: 'tool_call' as const,
    id: 'c1',
    name: 'slow_compute',
    args: { seconds: 0.01 },
  }
  const model = fakeModel()
    .respond(new AIMessage({ content: '', tool_calls: [call] }))
    .respond(new AIMessage('done'))
  const agent = createAgent({ model, tools, checkpointer: new MemorySaver() })
  const config = { configurable: { thread_id: 't1' }, streamMode: 'custom' as const }
  const events: unknown[] = []
  for await (const event of await agent.stream({ messages: 'go' }, config)) events.push(event)
  expect(events).toMatchObject([{ type: 'mcp_progress', message: 'computing' }])
  expect(all.server.runs).toEqual(['slow_compute'])
})

test.each([
  { tool: 'protocol_error_job', text: /did not complete.*the job broke/ },
  { tool: 'failing_job', text: /^the job failed$/ },
])('shows the model why a task failed ($tool)', async ({ tool, text }) => {
  await using all = await given()
  const { answers } = await (await all.graph([{ name: tool }])).start()
  expect(answers['call-0']).toMatchObject({ status: 'error', text: expect.stringMatching(text) })
  expect(all.server.runs).toEqual([tool])
})

test.each([
  { change: 'cancelled', text: /did not complete.*was cancelled/ },
  { change: 'forgotten', text: /no longer has its result.*has expired/ },
])('shows the model that a task was $change', async ({ change, text }) => {
  await using all = await given()
  const { server } = all
  const graph = await all.graph([{ name: 'slow_compute' }])
  const turn = graph.start()
  await polled(server)
  if (change === 'cancelled') server.change({ status: 'cancelled' })
  else server.tasks.clear()
  const { answers } = await turn
  expect(answers['call-0']?.text).toMatch(/^MCP tool "slow_compute" .*may or may not have been/)
  expect(answers['call-0']?.text).toMatch(text)
  expect(server.runs).toEqual(['slow_compute'])
})

test('cancels the task of a run that is aborted', async () => {
  await using all = await given()
  const graph = await all.graph([{ name: 'slow_compute' }])
  const aborting = new AbortController()
  const turn = graph.start(aborting.signal)
  await polled(all.server)
  aborting.abort(new Error('The user left'))
  await expect(turn).rejects.toThrow(/The user left|Abort/)
  await all.server.waitFor(
    ({ rpcMethod, end }) => rpcMethod === 'tasks/cancel' && end === 'complete',
  )
  expect(all.server.lastTask.status).toBe('cancelled')
})

test('cancels the task of a run that is aborted while its reference is stored', async () => {
  await using all = await given()
  const { server } = all
  const aborting = new AbortController()
  const store = new InMemoryStore()
  const put = store.put.bind(store)
  vi.spyOn(store, 'put').mockImplementation(async (...item) => {
    if (server.tasks.size > 0) aborting.abort(new Error('The user left'))
    await put(...item)
  })
  const tools = await all.mcp.listTools()
  const calls = [{ name: 'slow_compute' }]
  const graph = askingGraph({ kind: 'createAgent', tools, calls, store })
  await expect(graph.start(aborting.signal)).rejects.toThrow(/The user left|Abort/)
  await expect.poll(() => server.lastTask.status).toBe('cancelled')
})

test('cancels the task of a run that is aborted while it asks for the status', async () => {
  await using all = await given({ taskMode: 'interrupt' })
  const { server, proxy } = all
  const graph = await all.graph([{ name: 'slow_compute' }])
  const stopped = await graph.start()
  proxy.inject({ match: isPoll, times: 1, action: 'hang' })
  const aborting = new AbortController()
  const turn = goOn(graph, stopped, aborting.signal)
  await proxy.waitFor(isPoll)
  aborting.abort(new Error('The user left'))
  await expect(turn).rejects.toThrow(/The user left|Abort/)
  await expect.poll(() => server.lastTask.status).toBe('cancelled')
})

describe('questions of a task', () => {
  async function answerAll(graph: AskingGraph, { interrupts }: Turn): Promise<Turn> {
    const resumes = interrupts.map((interrupt) =>
      elicitationResume(
        interrupt,
        Object.fromEntries(
          Object.entries(interrupt.value.requests).map(([key, { message }]) => [
            key,
            { action: 'accept' as const, content: { value: `re: ${String(message)}` } },
          ]),
        ),
      ),
    )
    return graph.resume(Object.assign({}, ...resumes))
  }

  test.each([
    { tool: 'confirm_delete', args: { filename: 'a.txt' }, asked: ['Delete a.txt?'] },
    { tool: 'multi_input', args: {}, asked: ['First name?', 'Last name?'] },
    { tool: 'test_tool_with_task', args: {}, asked: ['Your name?'] },
  ])('interrupt the graph, which continues the same task ($tool)', async (row) => {
    await using all = await given()
    const graph = await all.graph([{ name: row.tool, args: row.args }])
    const stopped = await graph.start()
    const questions = Object.values(stopped.interrupts[0]?.value.requests ?? {})
    expect(questions.map(({ message }) => message)).toEqual(row.asked)
    expect(all.server.tasks.size).toBe(row.tool === 'test_tool_with_task' ? 0 : 1)
    const { answers, interrupts } = await answerAll(graph, stopped)
    expect(interrupts).toEqual([])
    for (const message of row.asked) expect(answers['call-0']?.text).toContain(`re: ${message}`)
    expect(all.server.runs).toEqual([row.tool])
  })
})

describe.each([
  { answered: 'handlers of the client answer', options: { handlers: { elicitation: accept } } },
  { answered: 'nobody answers', options: { elicitation: false as const } },
])('a graph for which $answered questions', ({ options }) => {
  test('continues a task with new tools', async () => {
    const shared = { checkpointer: new MemorySaver(), store: new InMemoryStore() }
    await using all = await given(options)
    const { server, proxy, mcp } = all
    const calls = [{ name: 'slow_compute' }]
    const graphOf = async (tools: McpTools): Promise<AskingGraph> =>
      askingGraph({ kind: 'createAgent', tools: await tools.listTools(), calls, ...shared })
    const turn = (await graphOf(mcp)).start()
    await polled(server)
    await Promise.all([expect(turn).rejects.toMatchObject({ code: 'CLOSED' }), mcp.close()])
    server.complete('computed once')
    await using next = createMcpTools({ servers: { jobs: { url: proxy.url } }, ...options })
    const { answers } = await (await graphOf(next)).goOn()
    expect(answers['call-0']?.text).toBe('computed once')
    expect(server.runs).toEqual(['slow_compute'])
    expect(server.count('tools/call')).toBe(1)
  })

  test("is interrupted while a task works, with taskMode: 'interrupt'", async () => {
    await using all = await given({ ...options, taskMode: 'interrupt' })
    const graph = await all.graph([{ name: 'slow_compute' }])
    const first = await graph.start()
    expect(first.interrupts).toMatchObject([{ value: { type: 'mcp_task' } }])
    all.server.complete('done')
    const { answers } = await goOn(graph, first)
    expect(answers['call-0']?.text).toBe('done')
  })
})

test('asks the handlers of the client in the place of a person', async () => {
  await using all = await given({ handlers: { elicitation: accept } })
  const graph = await all.graph([{ name: 'confirm_delete', args: { filename: 'a' } }])
  const { answers, interrupts } = await graph.start()
  expect(interrupts).toEqual([])
  expect(answers['call-0']?.text).toContain('accept')
})

describe("taskMode: 'interrupt'", () => {
  test('interrupts the graph until the task has ended', async () => {
    await using all = await given({ taskMode: 'interrupt' })
    const { server } = all
    const graph = await all.graph([
      { name: 'slow_compute' },
      { name: 'greet', args: { name: 'Ada' } },
    ])
    const stopped = await graph.start()
    expect(stopped.interrupts).toHaveLength(1)
    const value: unknown = stopped.interrupts[0]?.value
    expect(isTaskInterrupt(value) && value).toMatchObject({
      server: 'jobs',
      tool: 'slow_compute',
      task: { taskId: server.lastTask.taskId, tool: 'slow_compute' },
    })
    const again = await goOn(graph, stopped)
    expect(again.interrupts).toMatchObject([{ value: { type: 'mcp_task', message: 'computing' } }])
    server.complete('done')
    const { interrupts, answers } = await goOn(graph, again)
    expect(interrupts).toEqual([])
    expect(answers['call-0']?.text).toBe('done')
    expect(answers['call-1']?.text).toBe('Hello, Ada!')
    expect(server.runs).toEqual(['slow_compute', 'greet'])
  })

  test.each([
    { change: 'removed', tools: [] },
    { change: 'changed', tools: CHANGED },
  ])('continues the task of a tool that the server has $change since', async ({ tools }) => {
    await using server = await startTaskServer()
    const availableTools = [{ name: 'slow_compute' }]
    const resource = { $resourceType: 'mcp', name: 'Jobs', slug: 'jobs', availableTools }
    const checkpointer = new MemorySaver()
    const graphOf = async (client: McpClient): Promise<AskingGraph> => {
      const options = { taskMode: 'interrupt' } as const
      const stored = await createMcpToolsFromMetadataForMcpServer(resource, client, options)
      const calls = [{ name: 'slow_compute' }]
      return askingGraph({ kind: 'createAgent', tools: stored, calls, checkpointer })
    }
    await using one = new McpClient({ url: server.url })
    const stopped = await (await graphOf(one)).start()
    relist(server, tools)
    server.complete('done')
    await using other = new McpClient({ url: server.url })
    const { answers } = await goOn(await graphOf(other), stopped)
    expect(answers['call-0']?.text).toBe('done')
    expect(server.runs).toEqual(['slow_compute'])
  })

  test('says of a tool that differs from its pin now that the call may have been executed', async () => {
    await using all = await given({ taskMode: 'interrupt', pin: 'first-use' })
    const { server, mcp } = all
    const graph = await all.graph([{ name: 'slow_compute' }])
    const stopped = await graph.start()
    relist(server, CHANGED)
    await mcp.listTools({ forceRefresh: true })
    const { answers } = await goOn(graph, stopped)
    expect(answers['call-0']?.text).toMatch(/pinned definition.* It may have been executed before/)
  })

  test('asks for the status as the principal of the call', async () => {
    await using all = await given({ taskMode: 'interrupt', principal: () => 'ada' })
    const graph = await all.graph([{ name: 'slow_compute' }])
    const first = await graph.start()
    expect(first.interrupts).toMatchObject([{ value: { task: { principal: 'ada' } } }])
    const second = await goOn(graph, first)
    expect(second.interrupts).toMatchObject([{ value: { type: 'mcp_task', message: 'computing' } }])
    all.server.complete('done')
    const { answers } = await goOn(graph, second)
    expect(answers['call-0']?.text).toBe('done')
  })

  test('asks the question of a task as any question', async () => {
    await using all = await given({ taskMode: 'interrupt' })
    const graph = await all.graph([{ name: 'confirm_delete', args: { filename: 'a' } }])
    const first = await graph.start()
    expect(first.interrupts).toMatchObject([{ value: { type: 'mcp_task' } }])
    const second = await goOn(graph, first)
    expect(second.interrupts).toMatchObject([{ value: { type: 'mcp_elicitation' } }])
    const { answers } = await confirm(graph, second)
    expect(answers['call-0']?.text).toContain('yes')
    expect(all.server.runs).toEqual(['confirm_delete'])
  })

  test('interrupts the graph again while a task works on after an answer', async () => {
    await using all = await given({ taskMode: 'interrupt' })
    const { server } = all
    const graph = await all.graph([{ name: 'confirm_delete', args: { filename: 'a' } }])
    const asked = await goOn(graph, await graph.start())
    server.onGet = (answer) => ({ ...answer, status: 'working' })
    const third = await confirm(graph, asked)
    expect(third.interrupts).toMatchObject([{ value: { type: 'mcp_task' } }])
    server.onGet = undefined
    const { answers } = await goOn(graph, third)
    expect(answers['call-0']?.text).toContain('yes')
    expect(server.count('tasks/update')).toBe(1)
  })
})

describe('a process that is killed', () => {
  const calls = [{ name: 'slow_compute' }]

  async function expectResultOnce(
    server: TaskServer,
    asked: Promise<{ readonly answers: Readonly<Record<string, string>> }>,
  ): Promise<void> {
    server.complete('computed once')
    expect((await asked).answers['call-0']).toBe('success: computed once')
    expect(server.runs).toEqual(['slow_compute'])
    expect(server.count('tools/call')).toBe(1)
  }

  test.each([
    { kind: 'fanOutToolCalls', store: true },
    { kind: 'fanOutToolCalls', store: false },
    { kind: 'sub-agent', store: true },
  ] as const)(
    'while it polls: the next one continues the same task ($kind, store: $store)',
    async ({ kind, store }) => {
      await using folder = await temporaryFolder()
      await using server = await startTaskServer()
      await using one = await startGraph(server.url, folder.path, { store })
      one.tell({ calls, kind })
      await polled(server)
      await polled(server, server.received.length)
      await one.kill()

      await using two = await startGraph(server.url, folder.path, { store })
      const answer = two.ask({ calls, kind, goOn: true })
      await polled(server, server.received.length)
      await expectResultOnce(server, answer)
    },
  )

  test('as soon as the task exists: the record in the store names the task before the first poll', async () => {
    await using folder = await temporaryFolder()
    await using server = await startTaskServer()
    await using proxy = await startRecordingProxy(server.url)
    proxy.inject({ match: isPoll, times: 1, action: 'hang' })
    await using one = await startGraph(proxy.url, folder.path)
    one.tell({ calls })
    await proxy.waitFor(isPoll)
    await one.kill()

    await using two = await startGraph(proxy.url, folder.path)
    const answer = two.ask({ calls, goOn: true })
    await polled(server)
    await expectResultOnce(server, answer)
  })

  test.each([
    { honoursKeys: true, sent: 2, answer: /^success: computed once$/ },
    { honoursKeys: false, sent: 1, answer: /^error: .*may or may not have been executed/ },
  ])(
    'before it reads the answer: the key decides whether the call is sent again ($honoursKeys)',
    async ({ honoursKeys, sent, answer: expected }) => {
      await using folder = await temporaryFolder()
      await using server = await startTaskServer({ honoursKeys })
      await using proxy = await startRecordingProxy(server.url)
      proxy.inject({
        match: ({ toolName }) => toolName !== undefined,
        times: 1,
        action: { type: 'break-answer', how: 'stall', after: 'nothing' },
      })
      await using one = await startGraph(proxy.url, folder.path)
      one.tell({ calls })
      await expect.poll(() => server.runs).toEqual(['slow_compute'])
      await one.kill()

      await using two = await startGraph(proxy.url, folder.path)
      server.complete('computed once')
      const { answers } = await two.ask({ calls, goOn: true })
      expect(answers['call-0']).toMatch(expected)
      expect(server.runs).toEqual(['slow_compute'])
      expect(server.count('tools/call')).toBe(sent)
      expect(new Set(keysOf(server)).size).toBe(1)
    },
  )
})

test('two graphs that continue one thread at once wait for one task', async () => {
  await using all = await given()
  const { server } = all
  const tools = await all.mcp.listTools()
  const shared = { checkpointer: new MemorySaver(), store: new InMemoryStore() }
  const calls = [{ name: 'slow_compute' }]
  const [one, other] = [1, 2].map(() =>
    askingGraph({ kind: 'fanOutToolCalls', tools, calls, ...shared }),
  )
  const first = one?.start()
  await polled(server)
  const second = other?.goOn()
  await polled(server, server.received.length)
  server.complete('computed once')
  for (const turn of await Promise.all([first, second])) {
    expect(turn?.answers['call-0']?.text).toBe('computed once')
  }
  expect(server.runs).toEqual(['slow_compute'])
  expect(server.count('tools/call')).toBe(1)
})

describe('the idempotency key', () => {
  const greeting = (name: string, id = 'c1') =>
    ({ type: 'tool_call', id, name: 'greet', args: { name } }) as const
  const greetOf = async ({ mcp }: Given): Promise<McpTool | undefined> =>
    (await mcp.listTools()).find(({ name }) => name === 'greet')

  /** Runs a graph of one node that gives messages. */
  async function runNode(
    node: (config: object) => Promise<ToolMessage[]>,
    checkpointer?: MemorySaver,
  ): Promise<string[]> {
    const retryPolicy = { initialInterval: 1, logWarning: false }
    const { messages } = await new StateGraph(MessagesAnnotation)
      .addNode('one', async (_state, config) => ({ messages: await node(config) }), { retryPolicy })
      .addEdge('__start__', 'one')
      .compile({ ...(checkpointer && { checkpointer }), store: new InMemoryStore() })
      .invoke({ messages: [] }, { configurable: { thread_id: 't1' } })
    return messages.map(({ text }) => text)
  }

  test('differs for each call, also for calls of later turns with the same ids', async () => {
    await using all = await given()
    const calls = ['Ada', 'Bob'].map((name) => ({ name: 'greet', args: { name } }))
    const tools = await all.mcp.listTools()
    const checkpointer = new MemorySaver()
    for (const thread of ['t1', 't2']) {
      await askingGraph({ kind: 'createAgent', tools, calls, checkpointer, thread }).start()
    }
    const keys = keysOf(all.server)
    expect(keys).toHaveLength(4)
    expect(new Set(keys).size).toBe(4)
    for (const key of keys) expect(key).toMatch(/^[\x21-\x7e]{1,255}$/)
  })

  test.each([
    { graph: 'a graph with a checkpointer', checkpointer: new MemorySaver() },
    { graph: 'a graph without one', checkpointer: undefined },
  ])('differs for calls of one node that have the same id, in $graph', async ({ checkpointer }) => {
    await using all = await given({}, { honoursKeys: true })
    const greet = await greetOf(all)
    const texts = await runNode(async (config) => {
      const first = await greet?.invoke(greeting('Ada', 'call_0'), config)
      return [first, await greet?.invoke(greeting('Bob', 'call_0'), config)]
    }, checkpointer)
    expect(texts).toEqual(['Hello, Ada!', 'Hello, Bob!'])
  })

  test('is the same in another attempt of a node, which chooses other arguments', async () => {
    await using all = await given({}, { honoursKeys: true })
    const greet = await greetOf(all)
    let attempt = 0
    const texts = await runNode(async (config) => {
      attempt += 1
      const message: ToolMessage = await greet?.invoke(greeting(`Ada ${attempt}`), config)
      if (attempt === 1) throw new Error('Fails once')
      return [message]
    }, new MemorySaver())
    expect(texts).toEqual(['Hello, Ada 1!'])
    expect(keysOf(all.server)).toHaveLength(1)
  })

  test('is new in a branch that begins at an earlier checkpoint', async () => {
    await using all = await given({}, { honoursKeys: true })
    const model = fakeModel()
      .respond(new AIMessage({ content: '', tool_calls: [greeting('Ada')] }))
      .respond(new AIMessage('done'))
      .respond(new AIMessage('done again'))
    const tools = await all.mcp.listTools()
    const agent = createAgent({ model, tools, checkpointer: new MemorySaver() })
    const config = { configurable: { thread_id: 't1' } }
    await agent.invoke({ messages: 'go' }, config)
    for await (const { next, config: earlier } of agent.graph.getStateHistory(config)) {
      if (next.includes('tools')) await agent.invoke(null, earlier)
    }
    expect(all.server.runs).toEqual(['greet', 'greet'])
    expect(new Set(keysOf(all.server)).size).toBe(2)
  })

  test('is new for each call that is made by hand', async () => {
    await using all = await given()
    const greet = await greetOf(all)
    const config = { configurable: { thread_id: 't1' } }
    for (const _ of [1, 2]) await greet?.invoke(greeting('Ada'), config)
    expect(new Set(keysOf(all.server)).size).toBe(2)
  })
})
