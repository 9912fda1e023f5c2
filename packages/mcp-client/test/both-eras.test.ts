// What users of the client get from any server, with or without sessions. Each test runs against a real
// server of each era.
import { getEventListeners } from 'node:events'
import { McpError } from '@modelcontextprotocol/sdk/types.js'
import { startModernServer, startRecordingProxy, startLegacyServer } from '@x/mcp-testing'
import type { ModernServer, LegacyServer } from '@x/mcp-testing'
import { describe, expect, test, vi } from 'vitest'
import { McpClient } from '../src/index.ts'
import type { McpClientOptions } from '../src/index.ts'
import { DurableFactory } from './session-stores.ts'
import {
  answerWith,
  is,
  recordEvents,
  rejectionOf,
  statesOf,
  stopClock,
  textOf,
} from './setting.ts'

type Server = LegacyServer | ModernServer

/** `opening`: the request before the calls. `cancelled()` waits until the server has cancelled `slow`. */
const eras = [
  {
    era: 'with sessions',
    opening: 'initialize',
    start: (): Promise<Server> => startLegacyServer(),
    cancelled: (server: Server): Promise<unknown> =>
      server.waitFor(is.method('notifications/cancelled')),
  },
  {
    era: 'without sessions',
    opening: 'server/discover',
    start: (): Promise<Server> => startModernServer(),
    cancelled: (server: Server): Promise<unknown> =>
      (server as ModernServer).ledger.waitFor(
        ({ tool, state }) => tool === 'slow' && state === 'cancelled',
      ),
  },
]

async function startShop(era: (typeof eras)[number]) {
  const server = await era.start()
  const proxy = await startRecordingProxy(server.url)
  const clients: McpClient[] = []
  return {
    server,
    proxy,
    clientOf(options?: McpClientOptions) {
      const client = new McpClient({ url: proxy.url }, options)
      clients.push(client)
      return client
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(clients.map((client) => client.dispose()))
      await proxy.close()
      await server[Symbol.asyncDispose]()
    },
  }
}

const isEcho = is.tool('echo')
const isSlow = is.tool('slow')

describe.each(eras)('$era', (era) => {
  test('returns the result of a failed tool, and throws the SDK error for an unknown tool', async () => {
    await using shop = await startShop(era)
    const client = shop.clientOf()
    expect(await client.callTool('fail')).toMatchObject({ isError: true })
    expect(await rejectionOf(client.callTool('no_such_tool'))).toBeInstanceOf(McpError)
    expect(shop.proxy.count({ toolName: 'no_such_tool' })).toBe(1)
  })

  test('requests the list of tools once, again on request, and again after a change', async () => {
    await using shop = await startShop(era)
    const { server } = shop
    const client = shop.clientOf()
    const lists = await Promise.all(Array.from({ length: 20 }, () => client.listTools()))
    expect(new Set(lists).size).toBe(1)
    await client.listTools()
    expect(server.count('tools/list')).toBe(1)
    await client.listTools({ forceRefresh: true })
    expect(server.count('tools/list')).toBe(2)

    if ('toolsChanged' in server) {
      await server.waitForListener(({ isOpen }) => isOpen)
      server.toolsChanged()
    } else {
      await server.waitFor(({ httpMethod }) => httpMethod === 'GET')
      server.notify('notifications/tools/list_changed')
    }
    const asked = async (): Promise<number> => {
      await client.listTools()
      return server.count('tools/list')
    }
    await expect.poll(asked).toBe(3)
    await client.dispose()
    expect(await asked()).toBe(4)
  })

  test('passes on all progress, also progress that arrives together with the result', async () => {
    await using shop = await startShop(era)
    const { server } = shop
    const client = shop.clientOf()
    const observed: unknown[] = []
    const warnings: unknown[] = []
    client.on('log', (event) => event.level === 'warning' && warnings.push(event))
    const onProgress = (progress: unknown): void => void observed.push(progress)
    const call = client.callTool('slow', {}, { onProgress })
    await server.waitFor(isSlow)
    await expect.poll(() => server.held).toBe(1)
    for (const n of [1, 2, 3]) await server.progress(n, 3)
    server.release('done')
    expect(textOf(await call)).toBe('done')
    expect(observed).toMatchObject([1, 2, 3].map((progress) => ({ progress, total: 3 })))
    expect(warnings).toEqual([])
  })

  test('logs the error of a progress callback that throws, and returns the result of the call', async () => {
    await using shop = await startShop(era)
    const { server } = shop
    const client = shop.clientOf()
    const logged: unknown[] = []
    client.on('log', ({ message }) => logged.push(message))
    let calls = 0
    const onProgress = (): never => {
      calls++
      throw new Error('A bug in the callback')
    }
    const call = client.callTool('slow', {}, { onProgress })
    await server.waitFor(isSlow)
    await expect.poll(() => server.held).toBe(1)
    for (const n of [1, 2]) await server.progress(n, 2)
    server.release('done')
    expect(textOf(await call)).toBe('done')
    expect(calls).toBe(2)
    expect(logged).toContainEqual(expect.stringContaining('A bug in the callback'))
    expect(server.executions('slow')).toBe(1)
  })

  test('rejects with the reason of an abort at once, and cancels the request on the server', async () => {
    await using shop = await startShop(era)
    const client = shop.clientOf()
    const caller = new AbortController()
    const call = client.callTool('slow', {}, { signal: caller.signal })
    await shop.server.waitFor(isSlow)
    caller.abort(new RangeError('enough'))
    expect(await rejectionOf(call)).toBe(caller.signal.reason)
    await era.cancelled(shop.server)
    expect(getEventListeners(caller.signal, 'abort')).toEqual([])
    expect(textOf(await client.callTool('echo', { text: 'x' }))).toBe('x')
  })

  test('rejects with TIMEOUT and an unknown outcome when the deadline passes during the call, and cancels it on the server', async () => {
    await using shop = await startShop(era)
    stopClock()
    const call = rejectionOf(shop.clientOf().callTool('slow', {}, { timeoutMs: 40 }))
    await shop.server.waitFor(isSlow)
    vi.advanceTimersByTime(40)
    expect(await call).toMatchObject({ code: 'TIMEOUT', tool: 'slow', outcome: 'unknown' })
    await era.cancelled(shop.server)
  })

  test('rejects with TIMEOUT and "not executed" when the deadline passes during the handshake, and serves the next call', async () => {
    await using shop = await startShop(era)
    const client = shop.clientOf()
    const undo = shop.proxy.inject({ match: is.method(era.opening), action: 'hang' })
    const error = await rejectionOf(client.callTool('echo', { text: 'x' }, { timeoutMs: 40 }))
    expect(error).toMatchObject({ code: 'TIMEOUT', outcome: 'not-executed' })
    undo()
    expect(textOf(await client.callTool('echo', { text: 'y' }))).toBe('y')
    expect(shop.server.executions('echo')).toBe(1)
  })

  test('rejects with CLOSED and "not executed" on dispose() during the handshake, and can be used again', async () => {
    await using shop = await startShop(era)
    const client = shop.clientOf()
    const observed = recordEvents(client)
    const undo = shop.proxy.inject({ match: is.method(era.opening), action: 'hang' })
    const calls = [client.callTool('echo'), client.listTools(), client.ping()].map(rejectionOf)
    const opening = await shop.proxy.waitFor(is.method(era.opening))
    await client.dispose()
    for (const error of await Promise.all(calls)) {
      expect(error).toMatchObject({ code: 'CLOSED', outcome: 'not-executed' })
    }
    expect(statesOf(observed).at(-1)).toBe('disposing>created')
    await shop.proxy.waitFor((one) => one === opening && one.end === 'client-gone')
    undo()
    expect(textOf(await client.callTool('echo', { text: 'x' }))).toBe('x')
  })

  test('rejects with CLOSED and an unknown outcome at once on dispose() during a call', async () => {
    await using shop = await startShop(era)
    const client = shop.clientOf()
    const call = rejectionOf(client.callTool('slow'))
    await shop.server.waitFor(isSlow)
    await client.dispose()
    expect(await call).toMatchObject({ code: 'CLOSED', tool: 'slow', outcome: 'unknown' })
  })

  test('uses a server again after it crashed and restarted', async () => {
    await using shop = await startShop(era)
    const client = shop.clientOf()
    await client.callTool('echo', { text: 'x' })
    await shop.server.restart()
    expect(textOf(await client.callTool('echo', { text: 'y' }))).toBe('y')
    expect(shop.server.executions('echo')).toBe(2)
  })

  test.each([
    [429, false, 'answered'],
    [503, false, 'REJECTED'],
    [503, true, 'answered'],
  ])('%i with Retry-After, idempotent %s: %s', async (status, idempotent, outcome) => {
    await using shop = await startShop(era)
    const client = shop.clientOf()
    await client.ping()
    const rule = { match: isEcho, times: 1 }
    const busy = (seconds: number) => ({ status, headers: { 'retry-after': `${seconds}` } })
    shop.proxy.inject({ ...rule, action: busy(0) })
    const call = client.callTool('echo', { text: 'x' }, { idempotent })
    expect(await call.then(() => 'answered', codeOf)).toBe(outcome)
    expect(shop.server.executions('echo')).toBe(outcome === 'answered' ? 1 : 0)
    shop.proxy.inject({ ...rule, action: busy(1000) })
    expect(
      await rejectionOf(client.callTool('echo', { text: 'x' }, { timeoutMs: 300_000, idempotent })),
    ).toMatchObject({ code: 'REJECTED', retryAfterMs: 1_000_000 })
  })

  test('rejects with INVALID_OUTPUT and the result for output that does not fit its schema', async () => {
    await using shop = await startShop(era)
    const client = shop.clientOf()
    const tool = {
      name: 'echo',
      inputSchema: { type: 'object' },
      outputSchema: { type: 'object', required: ['missing'] },
    }
    const list = { tools: [tool], resultType: 'complete', ttlMs: 0, cacheScope: 'private' }
    shop.proxy.inject({ match: is.method('tools/list'), action: answerWith({ result: list }) })
    const result = { content: [{ type: 'text', text: 'x' }], structuredContent: { text: 'x' } }
    const answer = answerWith({ result: { ...result, resultType: 'complete' } })
    shop.proxy.inject({ match: isEcho, action: answer })
    await client.listTools()
    expect(await rejectionOf(client.callTool('echo', { text: 'x' }))).toMatchObject({
      code: 'INVALID_OUTPUT',
      tool: 'echo',
      outcome: 'executed',
      result,
    })
    expect(shop.proxy.count({ toolName: 'echo' })).toBe(1)
  })

  test('resumes in the next process with one request', async () => {
    await using shop = await startShop(era)
    const sessionInfoFactory = new DurableFactory()
    const first = shop.clientOf({ sessionInfoFactory })
    await first.ping()
    await first.dispose()
    const next = shop.clientOf({ sessionInfoFactory })
    const mark = shop.proxy.mark()
    await next.callTool('echo', { text: 'x' })
    // With a stateless server, the listening stream is a POST as well.
    const methods = mark.exchanges().flatMap(({ rpcMethod }) => rpcMethod ?? [])
    expect(methods.filter((method) => method !== 'subscriptions/listen')).toEqual(['tools/call'])
  })

  test('reads all pages of resources and prompts', async () => {
    await using shop = await startShop(era)
    const client = shop.clientOf()
    const page = (key: string, name: string, nextCursor?: string): Record<string, unknown> => ({
      [key]: [{ name, uri: `test://${name}`, uriTemplate: `test://${name}/{x}` }],
      nextCursor,
      resultType: 'complete',
      ttlMs: 0,
      cacheScope: 'private',
    })
    const lists = {
      'resources/list': ['resources', () => client.listResources()],
      'resources/templates/list': ['resourceTemplates', () => client.listResourceTemplates()],
      'prompts/list': ['prompts', () => client.listPrompts()],
    } as const
    for (const [method, [key, list]] of Object.entries(lists)) {
      const pages = [page(key, 'one', 'c'), page(key, 'two')]
      shop.proxy.inject({
        match: is.method(method),
        action: async ({ rpcId: id }) => ({
          status: 200,
          body: JSON.stringify({ jsonrpc: '2.0', id, result: pages.shift() }),
        }),
      })
      expect((await list()).map(({ name }) => name)).toEqual(['one', 'two'])
    }
  })
})

function codeOf(error: unknown): unknown {
  return (error as { code?: unknown }).code
}

test('uses the era that the session of one scope has found for all other scopes', async () => {
  await using server = await startLegacyServer()
  let thread = 0
  await using client = new McpClient(
    { url: server.url },
    { scope: () => ({ thread: `t${thread}` }) },
  )
  for (thread = 1; thread <= 3; thread++) await client.callTool('counter_add')
  expect(server.sessions).toHaveLength(3)
  expect(server.count('server/discover')).toBe(1)
})

test('opens no listening stream with listen: false', async () => {
  await using server = await startLegacyServer()
  await using client = new McpClient({ url: server.url }, { listen: false })
  await client.ping()
  await client.ping()
  expect(server.received.filter(({ httpMethod }) => httpMethod === 'GET')).toEqual([])
})
