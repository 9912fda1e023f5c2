import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { tool as toolFrom } from '@langchain/core/tools'
import { Command, MemorySaver, MessagesAnnotation, StateGraph } from '@langchain/langgraph'
import { startLegacyServer } from '@x/mcp-testing'
import { SqliteSaver } from '@x/internal/testing/langgraph'
import { createAgent } from 'langchain'
import { describe, expect, test } from 'vitest'
import { approvalResume, createMcpTools } from '../src/index.ts'
import { ScriptedModel } from './scripted-model.ts'
import {
  config,
  shopOf,
  say,
  questionsIn,
  type Kind,
  askingGraphOf,
  buy,
  approve,
  AMBIGUOUS,
} from './approving-agent.ts'

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
    // From here on, only one call waits, and LangGraph still has the answer for both.
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
