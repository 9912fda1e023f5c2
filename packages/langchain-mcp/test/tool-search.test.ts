import { AIMessage, HumanMessage, isToolMessage, type BaseMessage } from '@langchain/core/messages'
import {
  Command,
  END,
  MemorySaver,
  MessagesAnnotation,
  START,
  StateGraph,
} from '@langchain/langgraph'
import { ToolNode, toolsCondition } from '@langchain/langgraph/prebuilt'
import { McpClient } from '@x/mcp-client'
import * as langchain from 'langchain'
import {
  createAgent,
  providerToolSearchMiddleware,
  tool as langChainTool,
  type AgentMiddleware,
} from 'langchain'
import { describe, expect, onTestFinished, test } from 'vitest'
import {
  createMcpTools,
  loadMcpTools,
  ToolSearch,
  type McpTools,
  type ToolLogEntry,
} from '../src/index.ts'
import { mcpToolsMiddleware } from '../src/middleware.ts'
import { startChangingServer, type ChangingServer } from './changing-server.ts'
import { namesOf } from './listed-tools.ts'
import { FAILED } from './lowest-langgraph.ts'
import { ScriptedModel } from './scripted-model.ts'

/** Its types do not fit `exactOptionalPropertyTypes`. */
const humanInTheLoopMiddleware = langchain.humanInTheLoopMiddleware as unknown as (options: {
  interruptOn: Record<string, boolean>
}) => AgentMiddleware

type ToolsOptions = Parameters<typeof createMcpTools>[0]

/** Notes the names of the tools of each call. */
class SpyingModel extends ScriptedModel {
  readonly bound: string[][] = []
  /** Fields of the bound tools that a provider reads. */
  extras: unknown[] = []
  description = ''

  override bindTools(
    tools: readonly { name: string; description?: string; extras?: unknown }[] = [],
  ): this {
    this.bound.push(namesOf(tools))
    this.extras = tools.map(({ extras }) => extras)
    this.description = tools.find(({ name }) => name === 'search_tools')?.description ?? ''
    return this
  }
}

const say = (content: string) => ({ messages: [new HumanMessage(content)] })
const thread = (id: string) => ({ configurable: { thread_id: id } })

/** A server with the tools `pay`, `look` and those. */
async function startBank(...names: readonly string[]): Promise<ChangingServer> {
  const server = await startChangingServer()
  onTestFinished(() => server[Symbol.asyncDispose]())
  for (const name of names) server.add(name)
  return server
}

function toolsFor(server: ChangingServer, options: Partial<ToolsOptions> = {}): McpTools {
  const mcp = createMcpTools({
    servers: { bank: server.url },
    tools: { search: true },
    ...options,
  })
  onTestFinished(() => mcp.close())
  return mcp
}

function lastTextOf({ messages }: { readonly messages: readonly BaseMessage[] }): string {
  return messages.at(-1)?.text ?? ''
}

describe('an agent with the middleware', () => {
  test('sees the search, and the tools that it found from the next call on', async () => {
    const mcp = toolsFor(await startBank(), { tools: { search: true, alwaysShow: ['look'] } })
    const model = new SpyingModel()
    const clock = langChainTool(() => 'noon', { name: 'clock', description: 'Tells the time.' })
    const agent = createAgent({
      model,
      tools: [clock],
      middleware: [mcpToolsMiddleware(mcp)],
      checkpointer: new MemorySaver(),
    })
    await agent.invoke(say('call search_tools {"query":"pays an amount"}'), thread('t1'))
    expect(model.bound).toEqual([
      ['clock', 'look', 'search_tools'],
      ['clock', 'look', 'search_tools', 'pay'],
    ])
    expect(model.description).toContain('- bank (2 tools): pay, look')
    expect(lastTextOf(await agent.invoke(say('call pay'), thread('t1')))).toBe('pay done')
    expect(model.bound.at(-1)).toEqual(['clock', 'look', 'search_tools', 'pay'])
  })

  test('that was created with all tools sees the same', async () => {
    const mcp = toolsFor(await startBank())
    const model = new SpyingModel()
    const agent = createAgent({
      model,
      tools: await mcp.listTools(),
      middleware: [mcpToolsMiddleware(mcp)],
    })
    await agent.invoke(say('call search_tools {"query":"pay"}\ncall search_tools {"query":"look"}'))
    expect(model.bound).toEqual([['search_tools'], ['search_tools', 'pay', 'look']])
  })

  test('runs a tool that it did not find, and sees it from then on', async () => {
    const server = await startBank()
    const model = new SpyingModel()
    const agent = createAgent({ model, middleware: [mcpToolsMiddleware(toolsFor(server))] })
    expect(lastTextOf(await agent.invoke(say('call pay')))).toBe('pay done')
    expect(model.bound).toEqual([['search_tools'], ['search_tools', 'pay']])
  })

  test('sees all tools up to the budget, and searches when the list grows beyond it', async () => {
    const server = await startBank()
    const mcp = toolsFor(server, { tools: { budget: { tools: 2 } } })
    const model = new SpyingModel()
    const agent = createAgent({
      model,
      middleware: [mcpToolsMiddleware(mcp)],
      checkpointer: new MemorySaver(),
    })
    await agent.invoke(say('call look'), thread('t1'))
    expect(model.bound.at(-1)).toEqual(['pay', 'look'])
    server.add('sell')
    await expect.poll(async () => namesOf(await mcp.listTools())).toContain('sell')
    // The thread goes on with the tool that it has called.
    await agent.invoke(say('call sell'), thread('t1'))
    expect(model.bound.slice(-2)).toEqual([
      ['search_tools', 'look'],
      ['search_tools', 'look', 'sell'],
    ])
  })

  test('loses a found tool that its server removes, and finds one that it adds', async () => {
    const server = await startBank()
    const mcp = toolsFor(server)
    const model = new SpyingModel()
    const agent = createAgent({
      model,
      middleware: [mcpToolsMiddleware(mcp)],
      checkpointer: new MemorySaver(),
    })
    await agent.invoke(say('call search_tools {"query":"select:pay,look"}'), thread('t1'))
    server.remove('pay')
    server.add('sell')
    await expect.poll(async () => namesOf(await mcp.listTools())).toEqual(['look', 'sell'])
    await agent.invoke(say('call search_tools {"query":"sell"}'), thread('t1'))
    expect(model.bound.slice(-2)).toEqual([
      ['search_tools', 'look'],
      ['search_tools', 'look', 'sell'],
    ])
    expect(lastTextOf(await agent.invoke(say('call pay'), thread('t1')))).toContain(
      'is no longer there',
    )
    expect(server.runs).toEqual([])
  })

  test('goes on in a new process: the thread has names, and no schemas', async () => {
    const server = await startBank()
    server.require('pay', 'amountOfMoney')
    const checkpointer = new MemorySaver()
    const first = toolsFor(server)
    const agent = createAgent({
      model: new SpyingModel(),
      middleware: [mcpToolsMiddleware(first)],
      checkpointer,
    })
    const { messages } = await agent.invoke(say('call search_tools {"query":"pay"}'), thread('t1'))
    expect(messages.find(isToolMessage)?.artifact).toEqual({ foundTools: ['pay'] })
    const stored = JSON.stringify(await checkpointer.getTuple(thread('t1')))
    expect(stored).toContain('foundTools')
    expect(stored).not.toContain('amountOfMoney')
    await first.close()

    const model = new SpyingModel()
    const next = createAgent({
      model,
      middleware: [mcpToolsMiddleware(toolsFor(server))],
      checkpointer,
    })
    const end = await next.invoke(say('call pay {"amountOfMoney":"5"}'), thread('t1'))
    expect(lastTextOf(end)).toBe('pay done')
    expect(model.bound[0]).toEqual(['search_tools', 'pay'])
  })

  test('searches in a new process, for a call that was approved there', async () => {
    const server = await startBank()
    const checkpointer = new MemorySaver()
    const agentOf = (mcp: McpTools) =>
      createAgent({
        model: new SpyingModel(),
        middleware: [
          humanInTheLoopMiddleware({ interruptOn: { search_tools: true, pay: true } }),
          mcpToolsMiddleware(mcp),
        ],
        checkpointer,
      })
    await agentOf(toolsFor(server)).invoke(
      say('call search_tools {"query":"pay"}\ncall pay'),
      thread('t1'),
    )
    expect(server.runs).toEqual([])
    const decisions = [{ type: 'approve' }, { type: 'approve' }]
    const resumed = agentOf(toolsFor(server))
    const end = await resumed.invoke(new Command({ resume: { decisions } }), thread('t1'))
    expect(lastTextOf(end)).toContain('pay done')
    expect(lastTextOf(end)).toContain('You can now call:\n- pay (bank)')
    expect(server.runs).toEqual(['pay'])
  })

  test('keeps what several threads found apart', async () => {
    const mcp = toolsFor(await startBank())
    const seen = await Promise.all(
      ['pay', 'look', 'pay', 'look'].map(async (query, index) => {
        const model = new SpyingModel()
        const agent = createAgent({ model, middleware: [mcpToolsMiddleware(mcp)] })
        await agent.invoke(
          say(`call search_tools {"query":"select:${query}"}`),
          thread(`t${index}`),
        )
        return model.bound.at(-1)
      }),
    )
    expect(seen).toEqual([
      ['search_tools', 'pay'],
      ['search_tools', 'look'],
      ['search_tools', 'pay'],
      ['search_tools', 'look'],
    ])
  })

  test('finds tools of the same name on two servers, and calls the one that it means', async () => {
    const [bank, shop] = await Promise.all([startBank(), startBank()])
    const mcp = toolsFor(bank, {
      servers: { bank: bank.url, shop: shop.url },
      prefixToolNames: true,
    })
    const model = new SpyingModel()
    const agent = createAgent({
      model,
      middleware: [mcpToolsMiddleware(mcp)],
      checkpointer: new MemorySaver(),
    })
    await agent.invoke(say('call search_tools {"query":"pay"}'), thread('t1'))
    expect(model.bound.at(-1)).toEqual(['search_tools', 'bank_pay', 'shop_pay'])
    await agent.invoke(say('call shop_pay'), thread('t1'))
    expect([bank.runs, shop.runs]).toEqual([[], ['pay']])
  })

  test.each(['{}', '{"query":5}', '{"query":null}'])(
    'tells the model about wrong arguments of the search: %s',
    async (args) => {
      const model = new SpyingModel()
      const agent = createAgent({
        model,
        middleware: [mcpToolsMiddleware(toolsFor(await startBank()))],
      })
      const { messages } = await agent.invoke(say(`call search_tools ${args}`))
      const answer = messages.find(isToolMessage)
      expect(answer).toMatchObject(FAILED)
      expect(answer?.text).toContain('did not match expected schema')
    },
  )

  test('has a search beside a tool of the agent with the same name', async () => {
    const own = langChainTool(() => 'own', { name: 'search_tools', description: 'Searches.' })
    const model = new SpyingModel()
    const agent = createAgent({
      model,
      tools: [own],
      middleware: [mcpToolsMiddleware(toolsFor(await startBank()))],
    })
    const calls = 'call search_tools {"input":"x"}\ncall search_tools_2 {"query":"pay"}'
    const text = lastTextOf(await agent.invoke(say(calls)))
    expect(text).toContain('own\nYou can now call:\n- pay')
    expect(model.bound.at(-1)).toEqual(['search_tools', 'search_tools_2', 'pay'])
  })

  test('keeps its own tool, if a server has a tool of the same name', async () => {
    const server = await startBank()
    const own = langChainTool(() => 'own', { name: 'pay', description: 'Pays.' })
    const entries: ToolLogEntry[] = []
    const mcp = toolsFor(server, {
      tools: { search: true, alwaysShow: ['pay', 'look'] },
      log: (entry) => void entries.push(entry),
    })
    const model = new SpyingModel()
    const agent = createAgent({ model, tools: [own], middleware: [mcpToolsMiddleware(mcp)] })
    expect(lastTextOf(await agent.invoke(say('call pay {"input":"x"}')))).toBe('own')
    expect(model.bound[0]).toEqual(['pay', 'look', 'search_tools'])
    expect(model.description).toContain('- bank (1 tools): look')
    const answer = lastTextOf(await agent.invoke(say('call search_tools {"query":"pay"}')))
    expect(answer).not.toContain('- pay (bank)')
    expect(server.runs).toEqual([])
    expect(entries).toEqual([expect.objectContaining({ code: 'NAME_COLLISION', tool: 'pay' })])
  })

  test('marks tools for the search of the provider', async () => {
    const mcp = toolsFor(await startBank(), {
      tools: { search: 'provider', alwaysShow: ['look'], budget: { tools: 1 } },
    })
    class Claude extends SpyingModel {
      override getName(): string {
        return 'ChatAnthropic'
      }
    }
    const model = new Claude()
    const agent = createAgent({
      model,
      middleware: [mcpToolsMiddleware(mcp), providerToolSearchMiddleware()],
    })
    expect(lastTextOf(await agent.invoke(say('call pay')))).toBe('pay done')
    expect(model.bound.at(-1)).toEqual(['pay', 'look', 'tool_search_tool_bm25'])
    expect(model.extras).toEqual([{ defer_loading: true }, undefined, undefined])
  })
})

test.each([true, false])(
  'an agent searches tools of a client, created with them: %s',
  async (isCreatedWith) => {
    const server = await startBank()
    await using client = new McpClient(server.url)
    const tools = await loadMcpTools(client)
    const model = new SpyingModel()
    const agent = createAgent({
      model,
      tools: isCreatedWith ? tools : [],
      middleware: [mcpToolsMiddleware(new ToolSearch(tools, { search: true }))],
      checkpointer: new MemorySaver(),
    })
    await agent.invoke(say('call search_tools {"query":"pay"}'), thread('t1'))
    expect(lastTextOf(await agent.invoke(say('call pay'), thread('t1')))).toBe('pay done')
    expect(model.bound[0]).toEqual(['search_tools'])
    expect(model.bound.at(-1)).toEqual(['search_tools', 'pay'])
  },
)

test('a graph with a ToolNode searches', async () => {
  const server = await startBank()
  const search = await toolsFor(server).toolSearch()
  const model = new SpyingModel()
  const graph = new StateGraph(MessagesAnnotation)
    .addNode('model', async ({ messages }) => ({
      messages: [await model.bindTools(search.shownFor(messages)).invoke(messages)],
    }))
    .addNode('tools', new ToolNode(search.registered))
    .addEdge(START, 'model')
    .addConditionalEdges('model', toolsCondition, ['tools', END])
    .addEdge('tools', 'model')
    .compile({ checkpointer: new MemorySaver() })
  await graph.invoke(say('call search_tools {"query":"pay"}'), thread('t1'))
  const end = await graph.invoke(say('call pay'), thread('t1'))
  expect(end.messages.at(-1)).toBeInstanceOf(AIMessage)
  expect(lastTextOf(end)).toBe('pay done')
  expect(model.bound).toEqual([
    ['search_tools'],
    ['search_tools', 'pay'],
    ['search_tools', 'pay'],
    ['search_tools', 'pay'],
  ])
})

describe('alwaysShow', () => {
  test('that names no tool is an error with the names', async () => {
    const mcp = toolsFor(await startBank(), { tools: { alwaysShow: ['look', 'pays', 'fly'] } })
    await expect(mcp.listTools()).rejects.toMatchObject({
      code: 'CONFIG',
      message: expect.stringContaining('no server has: "pays" (did you mean "pay"?), "fly"'),
    })
  })

  test('is a warning while a server gives no list, and with principals', async () => {
    const server = await startBank()
    const entries: ToolLogEntry[] = []
    const log = (entry: ToolLogEntry) => void entries.push(entry)
    const tools = { alwaysShow: ['fly'] }
    const servers = { bank: server.url, down: 'http://127.0.0.1:9/mcp' }
    for (const options of [{ servers }, { principal: () => 'ada' }]) {
      const mcp = toolsFor(server, { ...options, tools, log })
      expect(namesOf(await mcp.listTools())).toEqual(['pay', 'look'])
      await mcp.listTools()
    }
    const missing = entries.filter(({ code }) => code === 'TOOL_MISSING')
    expect(missing).toHaveLength(2) // one for each, however often the tools are listed
    expect(missing[0]?.message).toContain('"fly"')
  })

  test('may name a tool that its server removes later', async () => {
    const server = await startBank()
    const mcp = toolsFor(server, { tools: { search: true, alwaysShow: ['pay'] } })
    expect(namesOf((await mcp.toolSearch()).shownFor([]))).toEqual(['pay', 'search_tools'])
    server.remove('pay')
    await expect.poll(async () => namesOf(await mcp.listTools())).toEqual(['look'])
    expect(namesOf((await mcp.toolSearch()).shownFor([]))).toEqual(['search_tools'])
  })
})

test('a tool that ChatAnthropic drops is in the log and in the status', async () => {
  const entries: ToolLogEntry[] = []
  const mcp = toolsFor(await startBank(), {
    tools: { search: 'provider', budget: { tools: 0 } },
    schemaFor: () => ({ type: 'object', oneOf: [] }),
    log: (entry) => void entries.push(entry),
  })
  await mcp.listTools()
  expect(entries.map(({ code, tool }) => [code, tool])).toEqual([
    ['TOOL_QUARANTINED', 'pay'],
    ['TOOL_QUARANTINED', 'look'],
  ])
  expect(mcp.status()).toMatchObject([
    { state: 'partial', quarantined: [{ toolName: 'pay' }, { toolName: 'look' }] },
  ])
})
