import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { AIMessage, HumanMessage, isToolMessage, type BaseMessage } from '@langchain/core/messages'
import { tool as toolFrom, type StructuredTool } from '@langchain/core/tools'
import {
  Command,
  INTERRUPT,
  isInterrupted,
  MemorySaver,
  MessagesAnnotation,
  StateGraph,
  type BaseCheckpointSaver,
} from '@langchain/langgraph'
import { ToolNode } from '@langchain/langgraph/prebuilt'
import { startModernServer, startLegacyServer, type LegacyServer } from '@x/mcp-testing'
import { SqliteSaver } from '@x/internal/testing/langgraph'
import { createAgent, fakeModel, humanInTheLoopMiddleware, type AgentMiddleware } from 'langchain'
import { describe, expect, test } from 'vitest'
import {
  approvalResume,
  createMcpTools,
  elicitationResume,
  isApprovalInterrupt,
  isElicitationInterrupt,
  mayDestroy,
  McpTool,
  type Approve,
  type McpTools,
  type ToolCallOptions,
} from '../src/index.ts'
import { fanOutToolCalls } from '../src/langgraph.ts'
import { interruptOnFrom, type InterruptOn } from '../src/middleware.ts'
import { startChangingServer } from './changing-server.ts'
import { ScriptedModel } from './scripted-model.ts'

const config = { configurable: { thread_id: 't1' } }

function shopOf(
  server: LegacyServer,
  approve: Approve = ({ tool }) => tool.name === 'cart_add',
): McpTools {
  return createMcpTools({ servers: { shop: { url: server.url } }, approve })
}

async function agentOf(mcp: McpTools) {
  return createAgent({
    model: new ScriptedModel(),
    tools: await mcp.listTools(),
    checkpointer: new MemorySaver(),
  })
}

const say = (content: string) => ({ messages: [{ role: 'user', content }] })
const decide = (...decisions: readonly unknown[]) => new Command({ resume: { decisions } })

/** What waits for a decision, as an application sees it. */
function interruptsIn(result: object): { readonly id: string; readonly value: unknown }[] {
  return isInterrupted(result) ? result[INTERRUPT].map(({ id = '', value }) => ({ id, value })) : []
}

function questionsIn(result: object): unknown[] {
  return interruptsIn(result).map(({ value }) => value)
}

describe('a call that needs approval', () => {
  test('interrupts the graph before anything is sent, and is sent once after the approval', async () => {
    await using server = await startLegacyServer()
    await using mcp = shopOf(server)
    const agent = await agentOf(mcp)
    const stopped = await agent.invoke(say('call cart_add {"item":"pear"}'), config)
    expect(questionsIn(stopped)).toMatchObject([
      {
        actionRequests: [
          {
            name: 'cart_add',
            args: { item: 'pear' },
            description: expect.stringContaining('"shop"'),
          },
        ],
        reviewConfigs: [
          { actionName: 'cart_add', allowedDecisions: ['approve', 'edit', 'reject'] },
        ],
      },
    ])
    expect(server.count('tools/call')).toBe(0)
    const { messages } = await agent.invoke(decide({ type: 'approve' }), config)
    expect(messages.at(-1)?.text).toBe('cart holds pear')
    expect(server.executions('cart_add')).toBe(1)
  })

  test('is sent with the edited arguments', async () => {
    await using server = await startLegacyServer()
    await using mcp = shopOf(server)
    const agent = await agentOf(mcp)
    await agent.invoke(say('call cart_add {"item":"pear"}'), config)
    const edited = { type: 'edit', editedAction: { name: 'cart_add', args: { item: 'plum' } } }
    const { messages } = await agent.invoke(decide(edited), config)
    expect(messages.at(-1)?.text).toBe('cart holds plum')
  })

  test('is never sent after a rejection, and the model sees the reason', async () => {
    await using server = await startLegacyServer()
    await using mcp = shopOf(server)
    const agent = await agentOf(mcp)
    await agent.invoke(say('call cart_add {"item":"pear"}'), config)
    const { messages } = await agent.invoke(decide({ type: 'reject', message: 'Too dear' }), config)
    expect(messages.at(-2)).toMatchObject({ status: 'error', content: 'Too dear' })
    expect(server.count('tools/call')).toBe(0)
  })

  test('asks again after an answer without a decision', async () => {
    await using server = await startLegacyServer()
    await using mcp = shopOf(server)
    const agent = await agentOf(mcp)
    await agent.invoke(say('call cart_add {"item":"pear"}'), config)
    const again = await agent.invoke(new Command({ resume: 'yes' }), config)
    expect(questionsIn(again)).toMatchObject([{ problem: expect.stringContaining('decisions') }])
    expect(server.count('tools/call')).toBe(0)
    await agent.invoke(decide({ type: 'approve' }), config)
    expect(server.executions('cart_add')).toBe(1)
  })

  test('neither delays nor repeats the other calls of its message', async () => {
    await using server = await startLegacyServer()
    await using mcp = shopOf(server)
    const agent = await agentOf(mcp)
    await agent.invoke(
      say('call counter_add\ncall cart_add {"item":"pear"}\ncall counter_add'),
      config,
    )
    expect(server.executions('counter_add')).toBe(2)
    const { messages } = await agent.invoke(decide({ type: 'approve' }), config)
    expect(messages.at(-1)?.text).toContain('cart holds pear')
    expect(server.executions('counter_add')).toBe(2)
    expect(server.executions('cart_add')).toBe(1)
  })

  test('gets its own answer by the id of its interrupt, if two calls wait', async () => {
    await using server = await startLegacyServer()
    await using mcp = shopOf(server)
    const agent = await agentOf(mcp)
    const stopped = await agent.invoke(
      say('call cart_add {"item":"pear"}\ncall cart_add {"item":"gold"}'),
      config,
    )
    const interrupts = interruptsIn(stopped)
    const resume = Object.fromEntries(
      interrupts.map(({ id, value }) => [
        id,
        { decisions: [{ type: JSON.stringify(value).includes('gold') ? 'reject' : 'approve' }] },
      ]),
    )
    const { messages } = await agent.invoke(new Command({ resume }), config)
    expect(messages.at(-1)?.text).toContain('cart holds pear')
    expect(server.executions('cart_add')).toBe(1)
  })

  test('shows the call as the interceptors changed it', async () => {
    await using server = await startLegacyServer()
    await using mcp = createMcpTools({
      servers: { shop: { url: server.url } },
      approve: ({ tool }) => tool.name === 'cart_add',
      interceptors: [(_request, next) => next({ args: { item: 'plum' } })],
    })
    const agent = await agentOf(mcp)
    const stopped = await agent.invoke(say('call cart_add {"item":"pear"}'), config)
    expect(questionsIn(stopped)).toMatchObject([{ actionRequests: [{ args: { item: 'plum' } }] }])
  })
})

/** Runs graphs whose model makes the given calls at once, as an application does. */
type Kind = 'createAgent' | 'fanOutToolCalls'
type Calls = readonly { readonly name: string; readonly args: object }[]

async function askingGraphOf(
  kind: Kind,
  given: {
    readonly tools: StructuredTool[]
    readonly calls: Calls
    readonly checkpointer?: BaseCheckpointSaver
  },
) {
  const { tools, calls, checkpointer = new MemorySaver() } = given
  const tool_calls = calls.map(({ name, args }, index) => ({
    type: 'tool_call' as const,
    id: `c${index}`,
    name,
    args: { ...args },
  }))
  const respond = (messages: BaseMessage[]): AIMessage =>
    messages.some(isToolMessage)
      ? new AIMessage('done')
      : new AIMessage({ content: '', tool_calls })
  const model = Array.from({ length: 8 }).reduce<ReturnType<typeof fakeModel>>(
    (fake) => fake.respond(respond),
    fakeModel(),
  )
  const graph =
    kind === 'createAgent'
      ? createAgent({ model, tools, checkpointer }).graph
      : new StateGraph(MessagesAnnotation)
          .addNode('model', ({ messages }) => ({ messages: [respond(messages)] }))
          .addNode('tools', new ToolNode(tools))
          .addEdge('__start__', 'model')
          .addEdge('tools', 'model')
          .addConditionalEdges('model', fanOutToolCalls(), ['tools', '__end__'])
          .compile({ checkpointer })
  const invoke = async (input: unknown, thread = 't1') => {
    const on = { configurable: { thread_id: thread } }
    const state: unknown = await graph.invoke(input as Parameters<typeof graph.invoke>[0], on)
    return interruptsIn(state as object).toSorted((a, b) => keyOf(a).localeCompare(keyOf(b)))
  }
  return {
    start: (thread?: string) => invoke({ messages: [new HumanMessage('buy')] }, thread),
    resume: (resume: unknown, thread?: string) => invoke(new Command({ resume }), thread),
    goOn: () => invoke(null),
  }
}

const keyOf = ({ value }: { readonly value: unknown }): string =>
  isApprovalInterrupt(value) ? value.key : ''

const buy = (...items: readonly string[]): Calls =>
  items.map((item) => ({ name: 'cart_add', args: { item } }))

const approve = { decisions: [{ type: 'approve' }] }
const AMBIGUOUS = /^Several calls wait/

describe.each<Kind>(['createAgent', 'fanOutToolCalls'])('two calls that wait (%s)', (kind) => {
  test.each([
    ['an approval', approve],
    ['two approvals', { decisions: [{ type: 'approve' }, { type: 'approve' }] }],
    [
      'an edit',
      { decisions: [{ type: 'edit', editedAction: { name: 'cart_add', args: { item: 'gold' } } }] },
    ],
    ['a key of nobody', { key: 'c0:other', ...approve }],
  ])('execute nothing after %s without a key, and ask again', async (_what, answer) => {
    await using server = await startLegacyServer()
    await using mcp = shopOf(server)
    const graph = await askingGraphOf(kind, {
      tools: await mcp.listTools(),
      calls: buy('pear', 'plum'),
    })
    await graph.start()
    const again = await graph.resume(answer)
    expect(again).toMatchObject([
      { value: { problem: expect.any(String), actionRequests: [{ args: { item: 'pear' } }] } },
      { value: { problem: expect.any(String), actionRequests: [{ args: { item: 'plum' } }] } },
    ])
    expect(server.executions('cart_add')).toBe(0)
  })

  test('each use their own answer', async () => {
    await using server = await startLegacyServer()
    await using mcp = shopOf(server)
    const graph = await askingGraphOf(kind, {
      tools: await mcp.listTools(),
      calls: buy('pear', 'plum'),
    })
    const [pear, plum] = await graph.start()
    if (pear === undefined || plum === undefined) throw new Error('Nobody was asked')
    await graph.resume(approve)
    const left = await graph.resume({
      ...approvalResume(pear, { type: 'reject', message: 'no' }),
      ...approvalResume(plum, { type: 'approve' }),
    })
    expect(left).toEqual([])
    const calls = server.received.filter(({ rpcMethod }) => rpcMethod === 'tools/call')
    expect(calls.map(({ params }) => params)).toMatchObject([{ arguments: { item: 'plum' } }])
  })

  test('accept an answer without a key when only one call waits', async () => {
    await using server = await startLegacyServer()
    await using mcp = shopOf(server)
    const graph = await askingGraphOf(kind, {
      tools: await mcp.listTools(),
      calls: buy('pear', 'plum'),
    })
    const [pear] = await graph.start()
    expect(await graph.resume({ [pear?.id ?? '']: approve })).toMatchObject([
      { value: { actionRequests: [{ args: { item: 'plum' } }] } },
    ])
    expect(server.executions('cart_add')).toBe(1)
    expect(await graph.resume(approve)).toEqual([])
    expect(server.executions('cart_add')).toBe(2)
  })

  test('never accept an answer that was refused before', async () => {
    await using server = await startLegacyServer()
    await using mcp = shopOf(server)
    const graph = await askingGraphOf(kind, {
      tools: await mcp.listTools(),
      calls: buy('pear', 'plum'),
    })
    const [pear, plum] = await graph.start()
    if (pear === undefined || plum === undefined) throw new Error('Nobody was asked')
    await graph.resume(approve)
    // From here on only one waits, and LangGraph still has the answer that both were given.
    await graph.resume(approvalResume(pear, { type: 'reject' }))
    await graph.goOn()
    expect(await graph.goOn()).toMatchObject([
      { value: { problem: expect.stringMatching(AMBIGUOUS) } },
    ])
    expect(server.executions('cart_add')).toBe(0)
    await graph.resume(approvalResume(plum, { type: 'approve' }))
    expect(server.executions('cart_add')).toBe(1)
  })

  test('ignore the answer to a question of another tool', async () => {
    await using server = await startLegacyServer()
    await using mcp = shopOf(server)
    const { interrupt } = await import('@langchain/langgraph')
    const other = toolFrom(() => `told ${JSON.stringify(interrupt('And you?'))}`, {
      name: 'other',
      description: 'Asks a person by itself',
      schema: { type: 'object', properties: {} },
    })
    const graph = await askingGraphOf(kind, {
      tools: [other, ...(await mcp.listTools())],
      calls: [{ name: 'other', args: {} }, ...buy('pear')],
    })
    await graph.start()
    expect(await graph.resume(approve)).toMatchObject([{ value: { type: 'mcp_approval' } }])
    expect(server.executions('cart_add')).toBe(0)
  })
})

describe('an approval', () => {
  test('has no effect in another thread', async () => {
    await using server = await startLegacyServer()
    await using mcp = shopOf(server)
    const tools = await mcp.listTools()
    const graph = await askingGraphOf('createAgent', { tools, calls: buy('pear') })
    const [ann] = await graph.start('ann')
    const [bob] = await graph.start('bob')
    if (ann === undefined || bob === undefined) throw new Error('Nobody was asked')
    expect(await graph.resume(approvalResume(ann, { type: 'approve' }), 'bob')).toHaveLength(1)
    expect(server.executions('cart_add')).toBe(0)
    await graph.resume(approve, 'bob')
    expect(server.executions('cart_add')).toBe(1)
  })

  test.each(['key', 'id', 'neither'])('is given to another process, by %s', async (by) => {
    await using server = await startLegacyServer()
    const folder = await mkdtemp(join(tmpdir(), 'approval-'))
    const path = join(folder, 'checkpoints.db')
    const inProcess = async <T>(
      work: (graph: Awaited<ReturnType<typeof askingGraphOf>>) => Promise<T>,
    ): Promise<T> => {
      await using mcp = shopOf(server)
      const tools = await mcp.listTools()
      return await work(
        await askingGraphOf('createAgent', {
          tools,
          calls: buy('pear'),
          checkpointer: new SqliteSaver(path),
        }),
      )
    }
    const [asked] = await inProcess((graph) => graph.start())
    if (asked === undefined) throw new Error('Nobody was asked')
    const answers: Readonly<Record<string, unknown>> = {
      key: approvalResume(asked, { type: 'approve' }),
      id: { [asked.id]: approve },
      neither: approve,
    }
    expect(await inProcess((graph) => graph.resume(answers[by]))).toEqual([])
    expect(server.executions('cart_add')).toBe(1)
    await rm(folder, { recursive: true })
  })

  test('sends one call if it is given twice at the same time', async () => {
    await using server = await startLegacyServer()
    await using mcp = shopOf(server)
    const tools = await mcp.listTools()
    const graph = await askingGraphOf('createAgent', { tools, calls: buy('pear') })
    const [asked] = await graph.start()
    if (asked === undefined) throw new Error('Nobody was asked')
    const resume = approvalResume(asked, { type: 'approve' })
    await Promise.all([graph.resume(resume), graph.resume(resume), graph.resume(approve)])
    await graph.resume(resume)
    expect(server.executions('cart_add')).toBe(1)
  })

  test.each(['a node', 'a tool'])(
    'without a key reaches a sub-agent that is %s, if nobody else waits',
    async (place) => {
      await using server = await startLegacyServer()
      await using mcp = shopOf(server)
      const inner = createAgent({ model: new ScriptedModel(), tools: await mcp.listTools() })
      const task = say('call cart_add {"item":"pear"}')
      const checkpointer = new MemorySaver()
      const delegate = toolFrom(
        async () => {
          const { messages } = await inner.invoke(task)
          return messages.at(-1)?.text ?? ''
        },
        { name: 'delegate', description: 'Asks', schema: { type: 'object', properties: {} } },
      )
      const invoke = async (input: unknown): Promise<unknown[]> => {
        const graph =
          place === 'a tool'
            ? createAgent({ model: new ScriptedModel(), tools: [delegate], checkpointer }).graph
            : new StateGraph(MessagesAnnotation)
                .addNode('inner', inner.graph)
                .addEdge('__start__', 'inner')
                .compile({ checkpointer })
        const state: unknown = await graph.invoke(
          input as Parameters<typeof graph.invoke>[0],
          config,
        )
        return questionsIn(state as object)
      }
      const asked = await invoke(place === 'a tool' ? say('call delegate') : task)
      expect(asked).toMatchObject([{ type: 'mcp_approval' }])
      expect(await invoke(new Command({ resume: approve }))).toEqual([])
      expect(server.executions('cart_add')).toBe(1)
    },
  )

  test('asks again if it has the name of another tool', async () => {
    await using server = await startLegacyServer()
    await using mcp = shopOf(server)
    const tools = await mcp.listTools()
    const graph = await askingGraphOf('createAgent', { tools, calls: buy('pear') })
    const [asked] = await graph.start()
    if (asked === undefined) throw new Error('Nobody was asked')
    const editedAction = { name: 'counter_add', args: { item: 'gold' } }
    expect(await graph.resume(approvalResume(asked, { type: 'edit', editedAction }))).toMatchObject(
      [{ value: { problem: expect.stringContaining('name of the tool') } }],
    )
    expect(await graph.resume({ decisions: [{ type: 'edit', editedAction }] })).toHaveLength(1)
    expect(server.executions('cart_add')).toBe(0)
  })

  test('does not count for arguments that were not shown', async () => {
    await using server = await startLegacyServer()
    let item = 'pear'
    await using mcp = createMcpTools({
      servers: { shop: { url: server.url } },
      approve: ({ tool: { name } }) => name === 'cart_add',
      interceptors: [(_request, next) => next({ args: { item } })],
    })
    const tools = await mcp.listTools()
    const graph = await askingGraphOf('createAgent', { tools, calls: buy('any') })
    const [asked] = await graph.start()
    if (asked === undefined) throw new Error('Nobody was asked')
    item = 'gold'
    const again = await graph.resume(approvalResume(asked, { type: 'approve' }))
    expect(again).toMatchObject([{ value: { actionRequests: [{ args: { item: 'gold' } }] } }])
    const third = await graph.resume({ [asked.id]: approve })
    expect(third).toEqual([])
    expect(server.executions('cart_add')).toBe(1)
  })
})

describe('without a person to ask', () => {
  test('sends nothing for a plain call, and says what is missing', async () => {
    await using server = await startLegacyServer()
    await using mcp = shopOf(server)
    const cart = (await mcp.listTools()).find(({ name }) => name === 'cart_add')
    const call = { type: 'tool_call', id: 'c1', name: 'cart_add', args: { item: 'pear' } } as const
    expect(await cart?.invoke(call)).toMatchObject({
      status: 'error',
      content: expect.stringMatching(
        /needs the approval of a person.*in a graph with a checkpointer/,
      ),
    })
    expect(server.count('tools/call')).toBe(0)
  })

  test('refuses several calls in one plain ToolNode, because their answers could be confused', async () => {
    await using server = await startLegacyServer()
    await using mcp = shopOf(server)
    const calls = ['pear', 'plum'].map((item, index) => ({
      type: 'tool_call' as const,
      id: `c${index}`,
      name: 'cart_add',
      args: { item },
    }))
    const graphOf = async (tool_calls: typeof calls) =>
      new StateGraph(MessagesAnnotation)
        .addNode('model', () => ({ messages: [new AIMessage({ content: '', tool_calls })] }))
        .addNode('tools', new ToolNode(await mcp.listTools()))
        .addEdge('__start__', 'model')
        .addEdge('model', 'tools')
        .compile({ checkpointer: new MemorySaver() })
    const two = await graphOf(calls)
    const { messages } = await two.invoke({ messages: [new HumanMessage('buy')] }, config)
    expect(messages.slice(-2)).toMatchObject([{ status: 'error' }, { status: 'error' }])
    expect(messages.at(-1)?.text).toContain('several calls run in one node')
    expect(server.count('tools/call')).toBe(0)

    const one = await graphOf(calls.slice(0, 1))
    const stopped = await one.invoke({ messages: [new HumanMessage('buy')] }, config)
    expect(questionsIn(stopped)).toHaveLength(1)
    const approval = new Command<unknown, Record<string, unknown>, never>({
      resume: { decisions: [{ type: 'approve' }] },
    })
    const done = await one.invoke(approval, config)
    expect(done.messages.at(-1)?.text).toBe('cart holds pear')
  })
})

describe("'destructive'", () => {
  test.each([
    [undefined, true],
    [{}, true],
    [{ readOnlyHint: true }, false],
    [{ readOnlyHint: true, destructiveHint: true }, false],
    [{ destructiveHint: false }, false],
    [{ readOnlyHint: false, destructiveHint: true }, true],
  ] as const)(
    'with annotations %j asks: %s, by the defaults of the specification',
    (annotations, asks) => {
      expect(mayDestroy({ name: 'tool', annotations })).toBe(asks)
    },
  )

  test('reads without asking, and asks before it writes', async () => {
    await using server = await startLegacyServer()
    await using mcp = shopOf(server, 'destructive')
    const agent = await agentOf(mcp)
    const read = await agent.invoke(say('call whoami'), config)
    expect(questionsIn(read)).toEqual([])
    const stopped = await agent.invoke(say('call counter_add'), config)
    expect(questionsIn(stopped)).toHaveLength(1)
    expect(server.executions('counter_add')).toBe(0)
  })
})

/** Its types do not fit `exactOptionalPropertyTypes`. */
const theirMiddleware = humanInTheLoopMiddleware as unknown as (options: {
  interruptOn: Record<string, InterruptOn>
}) => AgentMiddleware

test("asks with the question of LangChain's middleware, which can ask it too", async () => {
  await using server = await startLegacyServer()
  const ask = async (isOurs: boolean): Promise<unknown[]> => {
    await using mcp = createMcpTools({
      servers: { shop: { url: server.url } },
      approve: isOurs ? 'destructive' : undefined,
    })
    const tools = await mcp.listTools()
    const agent = createAgent({
      model: new ScriptedModel(),
      tools,
      middleware: isOurs ? [] : [theirMiddleware({ interruptOn: interruptOnFrom(tools) })],
      checkpointer: new MemorySaver(),
    })
    const stopped = await agent.invoke(say('call cart_add {"item":"pear"}'), config)
    expect(server.count('tools/call')).toBe(0)
    const { messages } = await agent.invoke(decide({ type: 'reject', message: 'No' }), config)
    expect(messages.at(-2)).toMatchObject({ status: 'error', content: 'No' })
    return questionsIn(stopped)
  }
  const [ours, theirs] = [await ask(true), await ask(false)]
  const shape = {
    actionRequests: [{ name: 'cart_add', args: { item: 'pear' }, description: expect.any(String) }],
    reviewConfigs: [{ actionName: 'cart_add', allowedDecisions: ['approve', 'edit', 'reject'] }],
  }
  expect(theirs).toMatchObject([shape])
  expect(ours).toMatchObject([shape])
})

test('sends a sensitive value, does not show it, and so does not allow to edit', async () => {
  const sent: unknown[] = []
  const pay = new McpTool({
    name: 'pay',
    definition: {
      name: 'pay',
      inputSchema: { type: 'object', properties: { to: {}, key: { type: 'string' } } },
    },
    server: { slug: 'bank' },
    source: {
      listTools: () => Promise.resolve([]),
      callTool: (_name: string, args?: unknown, _options?: ToolCallOptions) => {
        sent.push(args)
        return Promise.resolve({ content: [{ type: 'text', text: 'paid' }] })
      },
    },
    options: { approve: () => true },
    argumentProperties: {
      "$['key']": { variant: 'static', value: 'top-secret-value', isSensitive: true },
    },
  })
  const agent = createAgent({
    model: new ScriptedModel(),
    tools: [pay],
    checkpointer: new MemorySaver(),
  })
  const stopped = await agent.invoke(say('call pay {"to":"Ann"}'), config)
  expect(questionsIn(stopped)).toMatchObject([
    {
      actionRequests: [{ args: { to: 'Ann' } }],
      reviewConfigs: [{ allowedDecisions: ['approve', 'reject'] }],
    },
  ])
  expect(JSON.stringify(stopped)).not.toContain('top-secret-value')
  const edit = { type: 'edit', editedAction: { name: 'pay', args: { to: 'Bob' } } }
  const again = await agent.invoke(decide(edit), config)
  expect(questionsIn(again)).toHaveLength(1)
  expect(sent).toEqual([])
  await agent.invoke(decide({ type: 'approve' }), config)
  expect(sent).toEqual([{ to: 'Ann', key: 'top-secret-value' }])
})

test('refuses a tool whose definition changes while its call waits for approval', async () => {
  await using server = await startChangingServer()
  await using mcp = createMcpTools({
    servers: { bank: { url: server.url } },
    approve: () => true,
    pin: 'first-use',
    log: () => {},
  })
  const agent = await agentOf(mcp)
  await agent.invoke(say('call pay'), config)
  server.redefine('pay', 'Pays somebody else.')
  await expect.poll(async () => (await mcp.listTools()).map(({ name }) => name)).toEqual(['look'])
  const { messages } = await agent.invoke(decide({ type: 'approve' }), config)
  expect(messages.at(-1)?.text).toContain('differs from its pinned definition')
  expect(server.runs).toEqual([])
})

test('asks and answers the approval and the question of the server once each', async () => {
  await using server = await startModernServer()
  const seen: string[] = []
  await using mcp = createMcpTools({
    servers: { hotel: { url: server.url } },
    approve: ({ tool }) => {
      seen.push(tool.name)
      return tool.name === 'confirm'
    },
    log: () => {},
  })
  const agent = await agentOf(mcp)
  const approval = await agent.invoke(
    say('call confirm {"question":"Sure?"}\ncall add {"a":1,"b":2}'),
    config,
  )
  expect(questionsIn(approval)).toMatchObject([{ actionRequests: [{ name: 'confirm' }] }])
  expect(server.executions('confirm')).toBe(0)
  const asking = await agent.invoke(decide({ type: 'approve' }), config)
  const [question] = interruptsIn(asking)
  if (question === undefined || !isElicitationInterrupt(question.value)) {
    throw new Error('The server did not ask')
  }
  // An approval that comes twice, say by a double click, is no answer to the server.
  const twice = await agent.invoke(decide({ type: 'approve' }), config)
  expect(interruptsIn(twice).map(({ value }) => isElicitationInterrupt(value))).toEqual([true])
  const [again = question] = interruptsIn(twice)
  if (!isElicitationInterrupt(again.value)) throw new Error('The server does not ask')
  const answers = Object.fromEntries(
    Object.keys(again.value.inputRequests).map((key) => [
      key,
      { action: 'accept' as const, content: { value: 'certainly' } },
    ]),
  )
  const resume = elicitationResume({ id: again.id, value: again.value }, answers)
  const { messages } = await agent.invoke(new Command({ resume }), config)
  expect(messages.at(-1)?.text).toContain('certainly')
  expect(server.executions('confirm')).toBe(1)
  expect(server.executions('add')).toBe(1)
})
