import { McpClient } from '@x/mcp-client'
import { startLegacyServer, startRecordingProxy } from '@x/mcp-testing'
import type { LegacyServer, RecordingProxy } from '@x/mcp-testing'
import { expect, test } from 'vitest'
import { SessionInfoDebugStateFactory } from '../src/index.ts'
import { MemoryDebugStateStore, createDebugStateServer } from '../src/server/index.ts'

interface World extends AsyncDisposable {
  readonly mcp: LegacyServer
  /** In front of the debug-state service. */
  readonly proxy: RecordingProxy
  /** A client with its own factory, like another process. */
  startClient(): McpClient
  /** Methods of the requests to the service since the last call. */
  requests(): string[]
}

async function startWorld(): Promise<World> {
  const mcp = await startLegacyServer()
  const service = createDebugStateServer({ store: new MemoryDebugStateStore() })
  const proxy = await startRecordingProxy(await service.listen())
  const resources: AsyncDisposable[] = [mcp, service, proxy]
  let seen = 0
  return {
    mcp,
    proxy,
    startClient() {
      const options = { baseUrl: proxy.url, agentId: 'agent' }
      const sessionInfoFactory = new SessionInfoDebugStateFactory(options)
      const client = new McpClient({ url: mcp.url }, { sessionInfoFactory })
      resources.push(sessionInfoFactory, client)
      return client
    },
    requests() {
      const methods = proxy.exchanges.slice(seen).map(({ httpMethod }) => httpMethod)
      seen += methods.length
      return methods
    },
    async [Symbol.asyncDispose]() {
      for (const resource of resources.toReversed()) await resource[Symbol.asyncDispose]()
    },
  }
}

const call = (client: McpClient): Promise<unknown> => client.callTool('counter_add')

test('needs one GET and one PUT for the first call and for a loss, and nothing for other calls', async () => {
  await using world = await startWorld()
  const client = world.startClient()
  await call(client)
  await world.proxy.waitFor(({ httpMethod, end }) => httpMethod === 'PUT' && end !== undefined)
  expect(world.requests()).toEqual(['GET', 'PUT'])
  await call(client)
  await call(client)
  expect(world.requests()).toEqual([])
  world.mcp.forgetSessions()
  await call(client)
  await client.dispose()
  expect(world.requests()).toEqual(['GET', 'PUT'])
})

test('needs one GET in a new process, which resumes the session', async () => {
  await using world = await startWorld()
  const first = world.startClient()
  await call(first)
  const id = await first.getSessionId()
  await first.dispose()
  world.requests()
  const next = world.startClient()
  await call(next)
  expect(await next.getSessionId()).toBe(id)
  await next.dispose()
  expect(world.requests()).toEqual(['GET'])
  expect(world.mcp.count('initialize')).toBe(1)
})

test('leaves the session of another process in the store when its own is lost', async () => {
  await using world = await startWorld()
  const [one, other] = [world.startClient(), world.startClient()]
  await call(one)
  await one.dispose()
  await call(other) // resumes the session of the first client
  await call(one)
  world.mcp.forgetSessions()
  await call(one)
  const id = await one.getSessionId()
  await one.dispose()
  world.requests()
  await call(other) // finds the session of the first client instead of its own lost one
  expect(await other.getSessionId()).toBe(id)
  await other.dispose()
  expect(world.requests()).toEqual(['GET'])
  expect(world.mcp.count('initialize')).toBe(2)
})

test('keeps the list of tools for the next process, whose call is its first request to the MCP server', async () => {
  await using world = await startWorld()
  const first = world.startClient()
  const tools = await first.listTools()
  await call(first)
  await world.proxy.waitFor(({ httpMethod, end, path }) => {
    return httpMethod === 'PUT' && end !== undefined && path.endsWith('tools')
  })
  await world.proxy.waitFor(({ httpMethod, end, path }) => {
    return httpMethod === 'PUT' && end !== undefined && !path.endsWith('tools')
  })
  expect(world.requests().toSorted()).toEqual(['GET', 'GET', 'PUT', 'PUT'])

  const before = world.mcp.received.length
  const next = world.startClient()
  expect(await next.listTools({ acceptStored: true })).toEqual(tools)
  await call(next)
  expect(world.mcp.received[before]).toMatchObject({
    rpcMethod: 'tools/call',
    sessionId: world.mcp.sessions[0],
  })
  expect(world.requests()).toEqual(['GET', 'GET'])

  await next.listTools()
  world.mcp.notify('notifications/tools/list_changed')
  const requestsOfNext = async (): Promise<number> => {
    const count = world.mcp.count('tools/list')
    await world.startClient().listTools({ acceptStored: 'first-call' })
    return world.mcp.count('tools/list') - count
  }
  await expect.poll(requestsOfNext).toBe(1)
})
