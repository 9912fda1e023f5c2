// The first request of a process that continues the thread of an agent that was killed.
import { MemorySaver } from '@langchain/langgraph'
import {
  startLegacyServer,
  startModernServer,
  type LegacyServer,
  type ModernServer,
} from '@x/mcp-testing'
import { createAgent } from 'langchain'
import { describe, expect, onTestFinished, test } from 'vitest'
import { mcpToolsMiddleware } from '../src/middleware.ts'
import { createMcpTools, SessionInfoLangGraphStoreFactory } from '../src/index.ts'
import {
  isRpc,
  requestsIn,
  startAgentWorld,
  type AgentWorld,
  type ToolsOptions,
} from './agent-world.ts'
import { ScriptedModel } from './scripted-model.ts'

const places: readonly (readonly [where: string, options: (world: AgentWorld) => ToolsOptions])[] =
  [
    ['in a store of the user, one session for all calls', ({ kept }) => ({ session: kept })],
    [
      'in a store of the user, a session for each thread',
      ({ kept }) => ({ session: 'thread', sessionInfoFactory: kept }),
    ],
    [
      'in the store of the graph, which the tools are given',
      ({ store }) => ({
        session: 'thread',
        sessionInfoFactory: new SessionInfoLangGraphStoreFactory({ store }),
      }),
    ],
  ]

/** Calls a tool that answers when it is released, and returns the requests before its answer. */
async function requestsBeforeAnswer(
  server: LegacyServer | ModernServer,
  world: AgentWorld,
  options: ToolsOptions,
): Promise<string[]> {
  const mark = world.proxy.mark()
  const { say } = await world.start(options)
  const answer = say('call slow')
  await expect.poll(() => server.held).toBe(1)
  const requests = requestsIn(mark)
  server.release('done')
  expect(await answer).toBe('done')
  return requests
}

describe.each(places)('with sessions and lists %s', (_where, optionsFor) => {
  test('is the call, in the stored session', async () => {
    await using server = await startLegacyServer()
    const world = await startAgentWorld(server.url)
    const options = { ...optionsFor(world), elicitation: false } as const
    const { say } = await world.start(options)
    expect(await say('call counter_add')).toBe('counter is 1')
    // The listening stream is opened with the call, because progress may come there.
    expect(await requestsBeforeAnswer(server, world, options)).toEqual(['tools/call', 'GET'])
    const [first, last] = world.proxy.exchanges.filter(isRpc('tools/call'))
    expect(last?.sessionId).toBe(first?.sessionId)
    expect(world.proxy.count({ rpcMethod: 'initialize' })).toBe(server.count('initialize'))
    const { say: ask } = await world.start(options)
    expect(await ask('call counter_add')).toBe('counter is 2')
  })

  test('is the listening stream, if the server may ask there during the call', async () => {
    await using server = await startLegacyServer()
    const world = await startAgentWorld(server.url)
    const options = optionsFor(world)
    const { say } = await world.start(options)
    await say('call counter_add')
    expect(await requestsBeforeAnswer(server, world, options)).toEqual(['GET', 'tools/call'])
  })

  test('is the call, on a server without sessions', async () => {
    await using server = await startModernServer()
    const world = await startAgentWorld(server.url)
    const options = optionsFor(world)
    const { say } = await world.start(options)
    expect(await say('call echo {"text":"a"}')).toBe('a')
    expect(await requestsBeforeAnswer(server, world, options)).toEqual(['tools/call'])
    // The server says that a list is outdated at once, so it is read again after the call.
    await world.proxy.waitFor(
      (one) => isRpc('tools/list')(one) && one.n > 1 && one.end === 'complete',
    )
  })

  test('is the call also in a thread that has no session yet, after its handshake', async () => {
    await using server = await startLegacyServer()
    const world = await startAgentWorld(server.url)
    const options = { ...optionsFor(world), elicitation: false } as const
    await world.start(options)
    const mark = world.proxy.mark()
    const { say } = await world.start(options)
    await say('call counter_add')
    expect(requestsIn(mark)).not.toContain('tools/list')
    expect(server.executions('counter_add')).toBe(1)
  })
})

test('is the call of an agent that lists its tools in its graph, whose store is known there', async () => {
  await using server = await startModernServer()
  const world = await startAgentWorld(server.url)
  const checkpointer = new MemorySaver()
  const say = async (content: string): Promise<string> => {
    const mcp = createMcpTools({ servers: { shop: world.proxy.url }, session: 'thread' })
    onTestFinished(() => mcp.close())
    const model = new ScriptedModel()
    const middleware = [mcpToolsMiddleware(mcp)]
    const agent = createAgent({ model, middleware, checkpointer, store: world.store })
    const input = { messages: [{ role: 'user', content }] }
    const { messages } = await agent.invoke(input, { configurable: { thread_id: 't1' } })
    return messages.at(-1)?.text ?? ''
  }
  expect(await say('call echo {"text":"a"}')).toBe('a')
  const mark = world.proxy.mark()
  expect(await say('call echo {"text":"b"}')).toBe('b')
  expect(requestsIn(mark)[0]).toBe('tools/call')
})
