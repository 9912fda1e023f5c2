import { AIMessage, HumanMessage } from '@langchain/core/messages'
import { Command, MemorySaver, MessagesAnnotation, StateGraph } from '@langchain/langgraph'
import { ToolNode } from '@langchain/langgraph/prebuilt'
import { startModernServer, startLegacyServer } from '@x/mcp-testing'
import { createAgent, humanInTheLoopMiddleware, type AgentMiddleware } from 'langchain'
import { describe, expect, test } from 'vitest'
import {
  createMcpTools,
  elicitationResume,
  isElicitationInterrupt,
  mayDestroy,
  McpTool,
  type ToolCallOptions,
} from '../src/index.ts'
import { interruptOnFrom, type InterruptOn } from '../src/middleware.ts'
import { startChangingServer } from './changing-server.ts'
import { ScriptedModel } from './scripted-model.ts'
import {
  config,
  shopOf,
  agentOf,
  say,
  decide,
  interruptsIn,
  questionsIn,
} from './approving-agent.ts'

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
  // A repeated approval, for example by a double click, is not an answer to the server.
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
