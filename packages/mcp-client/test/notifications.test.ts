// Notifications of a server: emitted for the current session only, and again after a stream broke.
import { deferred, startModernServer, startRecordingProxy, startLegacyServer } from '@x/mcp-testing'
import type { Exchange, ModernServer, LegacyServer } from '@x/mcp-testing'
import { describe, expect, test, vi } from 'vitest'
import { McpClient } from '../src/index.ts'
import { is, next, startSetting, textOf } from './setting.ts'

test('emits all notifications of a server with sessions, also in a session that replaced another', async () => {
  await using server = await startLegacyServer()
  await using client = new McpClient({ url: server.url })
  for (const round of [1, 2]) {
    await client.subscribeResource('cart://items')
    await expect.poll(() => server.openStreams).toBe(1)
    const news = [
      next(client, 'toolListChanged'),
      next(client, 'promptsChanged'),
      next(client, 'resourcesChanged'),
      next(client, 'resourceUpdated'),
      next(client, 'serverLog'),
    ]
    server.notify('notifications/tools/list_changed')
    server.notify('notifications/prompts/list_changed')
    server.notify('notifications/resources/list_changed')
    server.notify('notifications/resources/updated', { uri: 'cart://items' })
    server.notify('notifications/message', { level: 'info', logger: 'shop', data: { round } })
    expect(await Promise.all(news)).toEqual([
      { server: server.url },
      { server: server.url },
      { server: server.url },
      { uri: 'cart://items' },
      { level: 'info', logger: 'shop', data: { round } },
    ])
    server.forgetSessions()
    await client.ping()
  }
})

test('emits notifications of a stateless server again after its listening stream broke', async () => {
  await using server = await startModernServer()
  await using client = new McpClient({ url: server.url }, { reconnect: { firstMs: 1 } })
  await client.subscribeResource('counter://value')
  await server.waitForListener(({ isOpen }) => isOpen)
  server.dropListeners()
  await expect.poll(() => server.listeners.length).toBe(1)
  const updated = next(client, 'resourceUpdated')
  server.resourceUpdated('counter://value')
  expect(await updated).toEqual({ uri: 'counter://value' })
})

test.each([
  ['with sessions', startLegacyServer],
  ['of 2026-07-28', startModernServer],
] as const)('opens no stream to a server %s with listen: false', async (_name, start) => {
  await using server = await start()
  await using proxy = await startRecordingProxy(server.url)
  await using client = new McpClient({ url: proxy.url }, { listen: false })
  await client.listTools()
  await client.ping()
  expect(proxy.count({ httpMethod: 'GET' })).toBe(0)
  expect(proxy.count({ rpcMethod: 'subscriptions/listen' })).toBe(0)
})

describe.each([
  ['with sessions', startLegacyServer, ({ httpMethod }: Exchange) => httpMethod === 'GET'],
  ['of 2026-07-28', startModernServer, is.method('subscriptions/listen')],
] as const)('the stream of a server %s', (_name, start, isStream) => {
  test('is opened again after a long outage, and the list of tools counts as changed', async () => {
    await using server = await start()
    await using proxy = await startRecordingProxy(server.url)
    const reconnect = { firstMs: 1, maxMs: 4000, maxAttempts: 2 }
    await using client = new McpClient({ url: proxy.url }, { reconnect })
    const warnings: string[] = []
    const given = deferred()
    client.on('log', ({ level, message }) => {
      if (level === 'warning') warnings.push(message)
      given.resolve()
    })
    await client.listTools()
    await client.listTools()
    const standing = await proxy.waitFor((one) => isStream(one) && one.status === 200)
    expect(proxy.count({ rpcMethod: 'tools/list' })).toBe(1)
    const endOutage = proxy.inject({ match: isStream, action: 'reset-before' })
    await breakStreams(server)
    await given.promise
    expect(warnings).toEqual([expect.stringContaining('2 attempts to open it again failed')])
    endOutage()
    const changed = next(client, 'toolListChanged')
    await client.ping() // the server answers again, so the stream is opened soon
    await changed
    await client.listTools()
    expect(proxy.count({ rpcMethod: 'tools/list' })).toBe(2)
    expect(proxy.exchanges.filter((one) => isStream(one) && one.n > standing.n)).toHaveLength(3)
    expect(warnings).toHaveLength(1)
  })

  test('may miss changes in a short gap: the list counts as changed, without a warning', async () => {
    await using server = await start()
    await using proxy = await startRecordingProxy(server.url)
    await using client = new McpClient({ url: proxy.url }, { reconnect: { firstMs: 1 } })
    const warnings: unknown[] = []
    client.on('log', ({ level }) => level === 'warning' && warnings.push(level))
    await client.listTools()
    await proxy.waitFor((one) => isStream(one) && one.status === 200)
    const changed = next(client, 'toolListChanged')
    await breakStreams(server)
    await changed
    await client.listTools()
    expect(proxy.count({ rpcMethod: 'tools/list' })).toBe(2)
    expect(warnings).toEqual([])
  })
})

/** Waits until the stream is open. */
async function breakStreams(server: LegacyServer | ModernServer): Promise<void> {
  if ('waitForListener' in server) {
    await server.waitForListener(({ isOpen }) => isOpen)
    server.dropListeners()
  } else {
    await vi.waitUntil(() => server.dropListenStreams() > 0, { timeout: 300_000 })
  }
}

test('ignores notifications on the stream of a call in an old session', async () => {
  await using setting = await startSetting()
  const { client, server, proxy } = setting
  await client.listTools()
  const late = deferred()
  const lines = (id: unknown): string =>
    [
      { method: 'notifications/message', params: { level: 'info', data: 'late' } },
      { method: 'notifications/tools/list_changed' },
      { id, result: { content: [{ type: 'text', text: 'from the old session' }] } },
    ]
      .map((message) => `data: ${JSON.stringify({ jsonrpc: '2.0', ...message })}\n\n`)
      .join('')
  proxy.inject({
    match: is.tool('slow'),
    action: async ({ rpcId }) => {
      await late.promise
      const headers = { 'content-type': 'text/event-stream' }
      return { status: 200, headers, body: lines(rpcId) }
    },
  })
  const running = client.callTool('slow')
  await proxy.waitFor(is.tool('slow'))
  server.forgetSessions()
  await client.listTools({ forceRefresh: true })
  const observed: unknown[] = []
  client.on('serverLog', (log) => observed.push(log))
  late.resolve()
  expect(textOf(await running)).toBe('from the old session')
  const before = server.count('tools/list')
  await client.listTools()
  expect(observed).toEqual([])
  expect(server.count('tools/list')).toBe(before)
})

test('does not treat "Session not found" from a stateless server as a lost session', async () => {
  await using server = await startModernServer()
  await using proxy = await startRecordingProxy(server.url)
  await using client = new McpClient({ url: proxy.url })
  await client.listTools()
  proxy.inject({
    match: is.tool('echo'),
    times: 1,
    action: {
      status: 404,
      body: (id) =>
        JSON.stringify({
          jsonrpc: '2.0',
          id,
          error: { code: -32001, message: 'Session not found' },
        }),
    },
  })
  await expect(client.callTool('echo', { text: 'x' })).rejects.not.toMatchObject({
    code: 'SESSION_LOST',
  })
  expect(proxy.count({ toolName: 'echo' })).toBe(1)
  // The second request asks whether the server is still stateless.
  expect(proxy.count({ rpcMethod: 'server/discover' })).toBe(2)
  expect(proxy.count({ rpcMethod: 'initialize' })).toBe(0)
  expect(textOf(await client.callTool('echo', { text: 'y' }))).toBe('y')
})
