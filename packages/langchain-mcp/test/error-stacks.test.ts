// The stack of an error shows the line that called the tool. LangGraph calls nodes from its own
// loop, so the stack of a call in a graph ends at the node.
import { AIMessage } from '@langchain/core/messages'
import { InMemoryStore, MemorySaver, MessagesAnnotation, StateGraph } from '@langchain/langgraph'
import { ToolNode } from '@langchain/langgraph/prebuilt'
import { McpClient } from '@x/mcp-client'
import { startLegacyServer, startRecordingProxy } from '@x/mcp-testing'
import { expect, test } from 'vitest'
import {
  createMcpTools,
  loadMcpTools,
  McpToolError,
  type McpTool,
  type ToolInterceptor,
} from '../src/index.ts'

/** The frame of this function must be in the stack of the error. */
async function callFromHere(call: () => Promise<unknown>): Promise<unknown> {
  try {
    return await call()
  } catch (error) {
    return error
  }
}

function expectCallerIn(error: unknown): void {
  expect(error).toBeInstanceOf(Error)
  expect(String((error as Error).stack)).toContain('callFromHere')
}

const call = { type: 'tool_call' as const, id: 'c1', name: 'counter_add', args: {} }
const asking = { messages: [new AIMessage({ content: '', tool_calls: [call] })] }

async function startSetting(interceptors: readonly ToolInterceptor[] = []) {
  const server = await startLegacyServer()
  const proxy = await startRecordingProxy(server.url)
  const servers = { shop: { url: proxy.url } }
  const mcp = createMcpTools({ servers, interceptors, onToolError: 'throw', log: () => {} })
  const tools = await mcp.listTools()
  return {
    proxy,
    mcp,
    tools,
    tool: (wanted: string): McpTool => {
      const found = tools.find(({ name }) => name === wanted)
      if (found === undefined) throw new Error(`There is no tool ${wanted}`)
      return found
    },
    cutNextCall: () =>
      proxy.inject({
        match: ({ toolName }) => toolName !== undefined,
        times: 1,
        action: 'reset-after',
      }),
    async [Symbol.asyncDispose]() {
      await mcp.close()
      await proxy.close()
      await server[Symbol.asyncDispose]()
    },
  }
}

test.each<readonly [string, readonly ToolInterceptor[]]>([
  ['without interceptors', []],
  ['with an interceptor', [(_request, next) => next()]],
])('invoke() and ToolNode: %s', async (_how, interceptors) => {
  await using setting = await startSetting(interceptors)
  const counter = setting.tool('counter_add')
  const failed = await callFromHere(() => setting.tool('fail').invoke({}))
  expect(failed).toMatchObject({ code: 'TOOL_FAILED' })
  expectCallerIn(failed)
  const node = new ToolNode(setting.tools, { handleToolErrors: false })
  for (const run of [
    () => counter.invoke({}),
    () => counter.invoke(call),
    () => node.invoke(asking),
  ]) {
    setting.cutNextCall()
    const error = await callFromHere(run)
    expect(error).toBeInstanceOf(McpToolError)
    expect(error).toMatchObject({ code: 'OUTCOME_UNKNOWN' })
    expectCallerIn(error)
  }
})

test.each([
  ['no persistence', {}],
  ['a checkpointer', { checkpointer: new MemorySaver() }],
  ['a checkpointer and a store', { checkpointer: new MemorySaver(), store: new InMemoryStore() }],
])('invoke() in a node of a graph with %s', async (_what, persistence) => {
  await using setting = await startSetting()
  const counter = setting.tool('counter_add')
  let thrown: unknown
  const graph = new StateGraph(MessagesAnnotation)
    .addNode('tools', async (_state, config) => {
      thrown = await callFromHere(() => counter.invoke(call, config))
      return {}
    })
    .addEdge('__start__', 'tools')
    .compile(persistence)
  setting.cutNextCall()
  await graph.invoke(asking, { configurable: { thread_id: 't1' } })
  expect(thrown).toMatchObject({ name: 'McpToolError', code: 'OUTCOME_UNKNOWN' })
  expectCallerIn(thrown)
})

test('a tool of a client of the caller', async () => {
  await using setting = await startSetting()
  await using client = new McpClient({ url: setting.proxy.url })
  const tools = await loadMcpTools(client, { onToolError: 'throw' })
  setting.cutNextCall()
  const counter = tools.find(({ name }) => name === 'counter_add')
  expectCallerIn(await callFromHere(async () => counter?.invoke({})))
})

test('other operations of a server', async () => {
  await using setting = await startSetting()
  const handle = setting.mcp.server('shop')
  setting.proxy.inject({ match: ({ httpMethod }) => httpMethod === 'POST', action: 'reset-after' })
  expectCallerIn(await callFromHere(() => handle.readResource('a://b')))
})

test('the list of tools, also for callers that share it', async () => {
  await using setting = await startSetting()
  setting.proxy.inject({ match: ({ httpMethod }) => httpMethod === 'POST', action: 'reset-after' })
  const servers = { shop: { url: setting.proxy.url } }
  await using mcp = createMcpTools({ servers, onServerError: 'throw' })
  const errors = [1, 2].map(() => callFromHere(() => mcp.listTools()))
  for (const error of await Promise.all(errors)) expectCallerIn(error)
})
