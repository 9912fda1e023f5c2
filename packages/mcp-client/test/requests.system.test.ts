import { startEverythingServer } from '@x/internal/testing'
import {
  lossForms,
  startLegacyServer,
  startModernServer,
  startRecordingProxy,
} from '@x/mcp-testing'
import { describe, expect, test, vi } from 'vitest'
import { McpClient } from '../src/index.ts'
import type { ClientHandlers, TimeoutExtension } from '../src/index.ts'
import { is, next, recordEvents, rejectionOf, stopClock, warningsOf } from './setting.ts'

const handlers: ClientHandlers = {
  elicitation: () => ({ action: 'accept', content: { confirmed: true, name: 'x' } }),
  sampling: () => ({ model: 'm', role: 'assistant', content: { type: 'text', text: 'hello' } }),
  roots: () => [{ uri: 'file:///shop', name: 'shop' }],
}

describe('on a server without sessions', () => {
  test('lists, reads, gets and completes', async () => {
    await using server = await startModernServer()
    await using client = new McpClient({ url: server.url })
    expect((await client.listResources()).map(({ uri }) => uri)).toContain('static://text')
    expect((await client.listResourceTemplates()).length).toBeGreaterThan(0)
    const { contents } = await client.readResource('static://text')
    expect(contents[0]).toMatchObject({ uri: 'static://text' })
    expect((await client.listPrompts()).map(({ name }) => name)).toContain('greet')
    const { messages } = await client.getPrompt('greet', { name: 'Ada' })
    expect(JSON.stringify(messages)).toContain('Ada')
    const ref = { type: 'ref/prompt', name: 'greet' } as const
    const { completion } = await client.complete({ ref, argument: { name: 'name', value: '' } })
    expect(completion.values.length).toBeGreaterThan(0)
    await client.ping()
    expect(await client.request({ method: 'tools/list' })).toHaveProperty('tools')
  })

  test('emits notifications about lists and resources', async () => {
    await using server = await startModernServer()
    await using client = new McpClient({ url: server.url })
    await client.subscribeResource('counter://value')
    const updated = next(client, 'resourceUpdated')
    server.resourceUpdated('counter://value')
    expect(await updated).toEqual({ uri: 'counter://value' })
    const prompts = next(client, 'promptsChanged')
    const resources = next(client, 'resourcesChanged')
    server.promptsChanged()
    server.resourcesChanged()
    expect(await prompts).toEqual({ server: server.url })
    expect(await resources).toEqual({ server: server.url })
    await client.unsubscribeResource('counter://value')
  })

  test('emits progress and log messages of a call in order, from the level that was set', async () => {
    await using server = await startModernServer()
    await using client = new McpClient({ url: server.url })
    const observed: string[] = []
    client.on('serverLog', ({ level }) => observed.push(level))
    await client.setLoggingLevel('info')
    await client.callTool(
      'progress',
      {},
      { onProgress: ({ progress }) => observed.push(`${progress}`) },
    )
    expect(observed).toEqual(['1', '2', 'info', '3'])
  })
})

describe('on a server from npm, with sessions', () => {
  test('extends the time limit while the server reports progress, up to maxMs', async () => {
    await using server = await startEverythingServer()
    stopClock('performance')
    await using client = new McpClient({ url: server.url }, { timeoutMs: 1000 })
    const name = 'trigger-long-running-operation'
    // Time passes only with the progress: 600 ms each time.
    const onProgress = (): void => void vi.advanceTimersByTime(600)
    const call = (timeout?: TimeoutExtension): Promise<unknown> =>
      client.callTool(name, { duration: 0.4, steps: 4 }, { onProgress, timeout })
    const late = { code: 'TIMEOUT', outcome: 'unknown' }
    expect(await rejectionOf(call())).toMatchObject(late)
    await call({ resetOnProgress: true, maxMs: 60_000 })
    expect(await rejectionOf(call({ resetOnProgress: true, maxMs: 1200 }))).toMatchObject(late)
  })

  test('lists, reads, gets and completes', async () => {
    await using server = await startEverythingServer()
    await using client = new McpClient({ url: server.url }, { handlers })
    const resources = await client.listResources()
    expect(resources.length).toBeGreaterThan(0)
    const { contents } = await client.readResource(resources[0]?.uri ?? '')
    expect(contents.length).toBeGreaterThan(0)
    expect((await client.listResourceTemplates()).length).toBeGreaterThan(0)
    const prompts = await client.listPrompts()
    const simple = prompts.find(({ arguments: args = [] }) => args.length === 0)
    expect((await client.getPrompt(simple?.name ?? '')).messages.length).toBeGreaterThan(0)
    await client.setLoggingLevel('debug')
    await client.ping()
  })
})

test('sets the log level and the subscriptions in a new session before any call', async () => {
  await using server = await startLegacyServer()
  await using client = new McpClient({ url: server.url })
  await client.setLoggingLevel('warning')
  await client.subscribeResource('cart://items')
  await client.subscribeResource('gone://soon')
  await client.unsubscribeResource('gone://soon')
  server.forgetSessions()
  const from = server.received.length
  await client.callTool('counter_add')
  const observed = server.received
    .slice(from)
    .filter(({ httpMethod }) => httpMethod === 'POST')
    .map(({ rpcMethod, params }) => [rpcMethod, params])
  expect(observed.slice(1)).toEqual([
    ['initialize', expect.anything()],
    ['notifications/initialized', undefined],
    ['logging/setLevel', { level: 'warning' }],
    ['resources/subscribe', { uri: 'cart://items' }],
    ['tools/call', { name: 'counter_add', arguments: {} }],
  ])
})

test.each([
  ['once', 1, 3],
  ['each time', Infinity, 4],
])(
  'replaces a session that is lost %s while its settings are restored',
  async (_, times, opened) => {
    await using server = await startLegacyServer()
    await using proxy = await startRecordingProxy(server.url)
    await using client = new McpClient({ url: proxy.url })
    const observed = recordEvents(client)
    await client.setLoggingLevel('warning')
    await client.subscribeResource('cart://items')
    server.forgetSessions()
    proxy.inject({ match: is.method('logging/setLevel'), times: 1, action: { status: 400 } })
    proxy.inject({ match: is.method('resources/subscribe'), times, action: lossForms['404-empty'] })
    await client.callTool('counter_add')
    expect(server.count('initialize')).toBe(opened)
    expect(server.executions('counter_add')).toBe(1)
    const { sessionId } = server.received.at(-1) ?? {}
    const restored = server.received.filter(
      (one) => one.sessionId === sessionId && one.rpcMethod === 'resources/subscribe',
    )
    expect(restored).toHaveLength(times === 1 ? 1 : 0)
    expect(warningsOf(observed)).toHaveLength(times === 1 ? 0 : 1)
  },
)
