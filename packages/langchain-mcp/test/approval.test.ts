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
import { startModernServer, startStatefulServer, type StatefulServer } from '@x/test-kit'
import { createAgent, humanInTheLoopMiddleware, type AgentMiddleware } from 'langchain'
import { describe, expect, test } from 'vitest'
import {
  createMcpTools,
  elicitationResume,
  isElicitationInterrupt,
  mayDestroy,
  McpTool,
  type Approve,
  type McpTools,
  type ToolCallOptions,
} from '../src/index.ts'
import { interruptOnFrom, type InterruptOn } from '../src/middleware/index.ts'
import { startChangingServer } from './changing-server.ts'
import { ScriptedModel } from './scripted-model.ts'

const config = { configurable: { thread_id: 't1' } }

function shopOf(
  server: StatefulServer,
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

describe('a call that a person has to approve', () => {
  test('stops the graph before anything is sent, and is made once when it is approved', async () => {
    await using server = await startStatefulServer()
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

  test('is sent as it was edited', async () => {
    await using server = await startStatefulServer()
    await using mcp = shopOf(server)
    const agent = await agentOf(mcp)
    await agent.invoke(say('call cart_add {"item":"pear"}'), config)
    const edited = { type: 'edit', editedAction: { name: 'cart_add', args: { item: 'plum' } } }
    const { messages } = await agent.invoke(decide(edited), config)
    expect(messages.at(-1)?.text).toBe('cart holds plum')
  })

  test('is never sent when it is rejected, and the model reads why', async () => {
    await using server = await startStatefulServer()
    await using mcp = shopOf(server)
    const agent = await agentOf(mcp)
    await agent.invoke(say('call cart_add {"item":"pear"}'), config)
    const { messages } = await agent.invoke(decide({ type: 'reject', message: 'Too dear' }), config)
    expect(messages.at(-2)).toMatchObject({ status: 'error', content: 'Too dear' })
    expect(server.count('tools/call')).toBe(0)
  })

  test('is asked for again when the answer is no decision', async () => {
    await using server = await startStatefulServer()
    await using mcp = shopOf(server)
    const agent = await agentOf(mcp)
    await agent.invoke(say('call cart_add {"item":"pear"}'), config)
    const again = await agent.invoke(new Command({ resume: 'yes' }), config)
    expect(questionsIn(again)).toMatchObject([{ problem: expect.stringContaining('decisions') }])
    expect(server.count('tools/call')).toBe(0)
    await agent.invoke(decide({ type: 'approve' }), config)
    expect(server.executions('cart_add')).toBe(1)
  })

  test('does not hold up, or repeat, the other calls of its message', async () => {
    await using server = await startStatefulServer()
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

  test('of two, each gets its own answer, by the id of its interrupt', async () => {
    await using server = await startStatefulServer()
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

  test('sees what the interceptors made of it', async () => {
    await using server = await startStatefulServer()
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

describe('where nobody can be asked', () => {
  test('a plain call is not sent, and says what is missing', async () => {
    await using server = await startStatefulServer()
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

  test('several calls in one plain ToolNode are refused: their answers could be mixed up', async () => {
    await using server = await startStatefulServer()
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
    'annotations %j: asks %s, as the specification has the defaults',
    (annotations, asks) => {
      expect(mayDestroy({ name: 'tool', annotations })).toBe(asks)
    },
  )

  test('reads without asking, and asks before it writes', async () => {
    await using server = await startStatefulServer()
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

test("the question is the one of LangChain's middleware, which may ask it as well", async () => {
  await using server = await startStatefulServer()
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

test('a sensitive value is sent, but not shown, and so cannot be edited', async () => {
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

test('a tool that is redefined while its call waits for approval is not called', async () => {
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
  expect(messages.at(-1)?.text).toContain('is not the one that was agreed to')
  expect(server.runs).toEqual([])
})

test('a server may ask after the approval, and neither question is asked or answered twice', async () => {
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
