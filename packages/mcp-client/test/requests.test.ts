import { startEverythingServer } from '@x/internal/testing'
import {
  lossForms,
  startLegacyServer,
  startModernServer,
  startRecordingProxy,
} from '@x/mcp-testing'
import type { Exchange } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { isInputRequired, McpClient } from '../src/index.ts'
import type { ClientHandlers, McpClientEvents } from '../src/index.ts'

/** Waits for the next event of a client. Call it before the cause of the event. */
function next<Name extends keyof McpClientEvents>(
  client: McpClient,
  name: Name,
): Promise<McpClientEvents[Name]> {
  return new Promise((resolve) => {
    const undo = client.on(name, (payload) => {
      undo()
      resolve(payload)
    })
  })
}

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

  test('answers the input requests of a call with the handlers', async () => {
    await using server = await startModernServer()
    await using client = new McpClient({ url: server.url }, { handlers })
    await expect(client.callTool('confirm')).resolves.toMatchObject({
      structuredContent: { confirmation: { action: 'accept' } },
    })
    await expect(client.callTool('sample')).resolves.toMatchObject({
      structuredContent: { answer: { content: { text: 'hello' } } },
    })
    await expect(client.callTool('roots')).resolves.toMatchObject({
      structuredContent: { roots: { roots: [{ uri: 'file:///shop' }] } },
    })
  })

  test('returns the input requests of a call, which another client continues', async () => {
    await using server = await startModernServer()
    await using one = new McpClient({ url: server.url }, { handlers })
    const open = await one.callTool('ask_twice', {}, { inputRequired: 'surface' })
    if (!isInputRequired(open)) throw new Error('The tool asked nothing')
    const [key = '', asked] = Object.entries(open.inputRequests ?? {})[0] ?? []
    expect(asked?.method).toBe('elicitation/create')
    await one.dispose()

    const stored = JSON.parse(JSON.stringify(open)) as typeof open
    await using other = new McpClient({ url: server.url }, { handlers })
    const result = await other.callTool(
      'ask_twice',
      {},
      {
        resume: {
          inputResponses: { [key]: { action: 'accept', content: { name: 'resumed' } } },
          requestState: stored.requestState,
        },
      },
    )
    expect(JSON.stringify(result)).toContain('resumed')
    expect(server.executions('ask_twice')).toBe(1)
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
    await using client = new McpClient({ url: server.url }, { timeoutMs: 1000 })
    const call = (maxMs?: number): Promise<unknown> =>
      client.callTool(
        'trigger-long-running-operation',
        { duration: 2, steps: 20 },
        maxMs === undefined ? {} : { timeout: { resetOnProgress: true, maxMs } },
      )
    await client.ping()
    const [plain, extended, tooLong] = await Promise.allSettled([call(), call(60_000), call(1200)])
    expect(plain).toMatchObject({ reason: { code: 'TIMEOUT', outcome: 'unknown' } })
    expect(extended.status).toBe('fulfilled')
    expect(tooLong).toMatchObject({ reason: { code: 'TIMEOUT', outcome: 'unknown' } })
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

  test('answers an elicitation in the middle of a call', async () => {
    await using server = await startEverythingServer()
    await using client = new McpClient({ url: server.url }, { handlers })
    const tools = await client.listTools()
    const asks = tools.find(({ name }) => name.includes('elicitation'))
    await expect(client.callTool(asks?.name ?? '')).resolves.toMatchObject({
      content: expect.arrayContaining([expect.objectContaining({ type: 'text' })]),
    })
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
    const warnings: string[] = []
    client.on('log', ({ level, message }) => {
      if (level === 'warning') warnings.push(message)
    })
    await client.setLoggingLevel('warning')
    await client.subscribeResource('cart://items')
    server.forgetSessions()
    const isOf =
      (method: string) =>
      ({ rpcMethod }: Exchange): boolean =>
        rpcMethod === method
    proxy.inject({ match: isOf('logging/setLevel'), times: 1, action: { status: 400 } })
    proxy.inject({ match: isOf('resources/subscribe'), times, action: lossForms['404-empty'] })
    await client.callTool('counter_add')
    expect(server.count('initialize')).toBe(opened)
    expect(server.executions('counter_add')).toBe(1)
    const { sessionId } = server.received.at(-1) ?? {}
    const restored = server.received.filter(
      (one) => one.sessionId === sessionId && one.rpcMethod === 'resources/subscribe',
    )
    expect(restored).toHaveLength(times === 1 ? 1 : 0)
    expect(warnings).toHaveLength(times === 1 ? 0 : 1)
  },
)

describe('output', () => {
  const output = { type: 'object', properties: { count: { type: 'string' } }, required: ['count'] }

  test('is rejected with an error that keeps the result if it does not fit the schema in the list', async () => {
    await using server = await startLegacyServer()
    await using proxy = await startRecordingProxy(server.url)
    const tool = { name: 'counter_add', inputSchema: { type: 'object' }, outputSchema: output }
    proxy.inject({
      match: ({ rpcMethod }) => rpcMethod === 'tools/list',
      action: async ({ rpcId }) => ({
        status: 200,
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ jsonrpc: '2.0', id: rpcId, result: { tools: [tool] } }),
      }),
    })
    await using client = new McpClient({ url: proxy.url })
    await expect(client.callTool('counter_add')).resolves.toMatchObject({
      structuredContent: { count: 1 },
    })
    await client.listTools()
    await expect(client.callTool('counter_add')).rejects.toMatchObject({
      code: 'INVALID_OUTPUT',
      tool: 'counter_add',
      result: { structuredContent: { count: 2 } },
    })
    expect(server.executions('counter_add')).toBe(2)
  })

  test('is returned if it fits; the result of a failed tool need not fit', async () => {
    await using server = await startLegacyServer()
    await using client = new McpClient({ url: server.url })
    await client.listTools()
    await expect(client.callTool('counter_add')).resolves.toMatchObject({
      structuredContent: { count: 1 },
    })
    await expect(client.callTool('fail')).resolves.toMatchObject({ isError: true })
  })
})

const busy = (status: number, seconds: number) => ({
  match: ({ rpcMethod }: { rpcMethod?: string | undefined }) => rpcMethod === 'tools/call',
  times: 1,
  action: { status, headers: { 'retry-after': String(seconds) }, body: 'busy' },
})

describe('an overloaded server', () => {
  test('gets a request again after the delay that it asked for with 429', async () => {
    await using server = await startLegacyServer()
    await using proxy = await startRecordingProxy(server.url)
    await using client = new McpClient({ url: proxy.url })
    proxy.inject(busy(429, 0))
    await expect(client.callTool('counter_add')).resolves.toMatchObject({
      structuredContent: { count: 1 },
    })
    expect(server.executions('counter_add')).toBe(1)
  })

  test('gets no request again if the delay is longer than the time limit; the error contains the delay', async () => {
    await using server = await startLegacyServer()
    await using proxy = await startRecordingProxy(server.url)
    await using client = new McpClient({ url: proxy.url })
    proxy.inject(busy(429, 60))
    await expect(client.callTool('counter_add', {}, { timeoutMs: 5000 })).rejects.toMatchObject({
      code: 'REJECTED',
      retryAfterMs: 60_000,
    })
  })

  test('gets a request again after 503 only if the call may run twice', async () => {
    await using server = await startLegacyServer()
    await using proxy = await startRecordingProxy(server.url)
    await using client = new McpClient({ url: proxy.url })
    proxy.inject(busy(503, 0))
    await expect(client.callTool('counter_add')).rejects.toMatchObject({ retryAfterMs: 0 })
    proxy.inject(busy(503, 0))
    await expect(client.callTool('counter_add', {}, { idempotent: true })).resolves.toBeDefined()
  })
})
