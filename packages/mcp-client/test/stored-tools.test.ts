// Lists of tools that a client stores for the next process.
import { temporaryFolder } from '@x/internal/testing'
import { FileSessionInfo, SessionInfo } from '@x/mcp-transport'
import { deferred, startLegacyServer, startModernServer, startRecordingProxy } from '@x/mcp-testing'
import type { LegacyServerOptions, RecordingProxy } from '@x/mcp-testing'
import type { Tool } from '@modelcontextprotocol/sdk/types.js'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { FileSessionInfoFactory, McpClient, runInSessionScope } from '../src/index.ts'
import type { McpClientOptions, SessionInfoSource } from '../src/index.ts'
import { DurableFactory, inFile, ScopedFactory, storeWith } from './session-stores.ts'
import { is, next, recordEvents, warningsOf } from './setting.ts'

async function startShop(options: LegacyServerOptions = {}) {
  const server = await startLegacyServer(options)
  const proxy = await startRecordingProxy(server.url)
  const folder = await temporaryFolder()
  onTestFinished(async () => {
    await proxy[Symbol.asyncDispose]()
    await server[Symbol.asyncDispose]()
    await folder[Symbol.asyncDispose]()
  })
  const clientOf = (
    sessionInfoFactory: SessionInfoSource | undefined,
    more: McpClientOptions = {},
  ): McpClient => {
    const client = new McpClient({ url: proxy.url }, { sessionInfoFactory, ...more })
    onTestFinished(() => client.dispose())
    return client
  }
  const inFolder = (): SessionInfoSource => new FileSessionInfoFactory(folder.path)
  return { server, proxy, folder, clientOf, inFolder, storedFor: storedFrom(proxy) }
}

/** Returns a function that lists the tools of a client: undefined if that needed a request. */
const storedFrom =
  (proxy: RecordingProxy) =>
  async (
    client: McpClient,
    acceptStored: true | 'first-call' = 'first-call',
  ): Promise<readonly Tool[] | undefined> => {
    const mark = proxy.mark()
    const tools = await client.listTools({ acceptStored })
    return mark.count({ rpcMethod: 'tools/list' }) === 0 ? tools : undefined
  }

const namesIn = (tools: readonly { readonly name: string }[] | undefined) =>
  tools?.map(({ name }) => name)

describe('the list that another process has stored', () => {
  test('is returned without a request, and without opening anything', async () => {
    const { server, clientOf, inFolder, proxy } = await startShop()
    const read = await clientOf(inFolder()).listTools()
    const mark = proxy.mark()
    const client = clientOf(inFolder())
    const stored = await client.listTools({ acceptStored: true })
    expect(stored).toEqual(read)
    expect(Object.isFrozen(stored[0])).toBe(true)
    expect(client.isClientInitialized).toBe(false)
    expect(mark.exchanges()).toEqual([])
    expect(server.sessions).toHaveLength(1)
    await client.callTool('counter_add')
    expect(mark.exchanges()[0]).toMatchObject({
      rpcMethod: 'tools/call',
      sessionId: server.sessions[0],
    })
  })

  test('is not returned by listTools(), unless the caller accepts it', async () => {
    const { clientOf, inFolder, proxy } = await startShop()
    const read = await clientOf(inFolder()).listTools()
    const mark = proxy.mark()
    const client = clientOf(inFolder())
    expect(await client.listTools({ acceptStored: true })).toEqual(read)
    expect(await client.listTools({ acceptStored: true })).toEqual(read)
    expect(mark.exchanges()).toEqual([])
    expect(await client.listTools()).toEqual(read)
    expect(mark.count({ rpcMethod: 'tools/list' })).toBe(1)
    await client.listTools({ acceptStored: true, forceRefresh: true })
    expect(mark.count({ rpcMethod: 'tools/list' })).toBe(2)
  })

  test('is the same in all threads of a principal, and no other', async () => {
    const { clientOf, inFolder, proxy, storedFor } = await startShop()
    await clientOf(inFolder(), { scope: { principal: 'ada', thread: 't1' } }).listTools()
    const mark = proxy.mark()
    const storedIn = async (scope: McpClientOptions['scope']): Promise<boolean> =>
      (await storedFor(clientOf(inFolder(), { scope }))) !== undefined
    expect(await storedIn({ principal: 'ada' })).toBe(true)
    expect(await storedIn({ principal: 'ada', thread: 't2' })).toBe(true)
    expect(mark.exchanges()).toEqual([])
    expect(await storedIn({ principal: 'bob', thread: 't1' })).toBe(false)
    expect(await storedIn({ thread: 't1' })).toBe(false)
  })

  test.each([
    ['as long as the server says', { listTtlMs: 90_000 }, 90_000],
    ['no longer, on a server that says nothing of a time', {}, 0],
  ])('counts as current %s, and for a first call for a day', async (_how, options, ttlMs) => {
    vi.useFakeTimers({ toFake: ['Date'] })
    onTestFinished(() => void vi.useRealTimers())
    await using server = await startModernServer(options)
    await using proxy = await startRecordingProxy(server.url)
    await using folder = await temporaryFolder()
    const storedFor = storedFrom(proxy)
    const listed = Date.now()
    const isStored = async (acceptStored: true | 'first-call', ageMs: number): Promise<boolean> => {
      vi.setSystemTime(listed + ageMs)
      const sessionInfoFactory = new FileSessionInfoFactory(folder.path)
      await using client = new McpClient(proxy.url, { sessionInfoFactory })
      return (await storedFor(client, acceptStored)) !== undefined
    }
    expect(await isStored(true, 0)).toBe(false)
    expect(await isStored('first-call', 86_400_000)).toBe(true)
    expect(await isStored(true, ttlMs - 1)).toBe(ttlMs > 0)
    expect(await isStored(true, ttlMs)).toBe(false)
    vi.setSystemTime(listed)
    expect(await isStored('first-call', ttlMs + 86_400_001)).toBe(false)
  })
})

describe('the stored list is removed', () => {
  test('when the server reports a change', async () => {
    const { server, clientOf, inFolder, storedFor } = await startShop()
    const client = clientOf(inFolder())
    await client.listTools()
    const changed = next(client, 'toolListChanged')
    await expect.poll(() => server.notify('notifications/tools/list_changed')).toBe(1)
    await changed
    await client.dispose() // waits for the store
    expect(await storedFor(clientOf(inFolder()))).toBeUndefined()
  })

  test('when the session is replaced, because its server may be another one', async () => {
    const { server, clientOf, inFolder, storedFor } = await startShop()
    const client = clientOf(inFolder())
    await client.listTools()
    server.forgetSessions()
    await client.callTool('counter_add')
    await client.dispose()
    expect(await storedFor(clientOf(inFolder()))).toBeUndefined()
  })

  test('but a list that was requested before the change is not stored after it', async () => {
    const { server, proxy, clientOf, inFolder, storedFor } = await startShop()
    const client = clientOf(inFolder())
    await client.callTool('counter_add')
    const changed = next(client, 'toolListChanged')
    proxy.inject({
      match: is.method('tools/list'),
      times: 1,
      async action(exchange) {
        server.notify('notifications/tools/list_changed')
        await changed
        return exchange.rpcMethod === 'tools/list' ? 'forward' : 'hang'
      },
    })
    await client.listTools()
    await client.dispose()
    expect(await storedFor(clientOf(inFolder()))).toBeUndefined()
  })
})

test('a list that changes while its store is created is not stored', async () => {
  const { server, clientOf } = await startShop()
  const info = storeWith({ durable: true })
  const asked = deferred()
  const answered = deferred()
  const createSession: SessionInfoSource['createSession'] = async (_server, _scope, purpose) => {
    if (purpose !== 'tools') return new SessionInfo()
    asked.resolve()
    await answered.promise
    return info
  }
  const client = clientOf({ createSession })
  const listed = client.listTools()
  await asked.promise
  const changed = next(client, 'toolListChanged')
  await expect.poll(() => server.notify('notifications/tools/list_changed')).toBe(1)
  await changed
  answered.resolve()
  await listed
  await client.dispose()
  expect((await info.getRecord())?.tools).toBeUndefined()
})

describe('a factory that keeps the list beside the session', () => {
  test.each([
    ['in one object', () => new DurableFactory()],
    ['in one object for each scope', () => new ScopedFactory()],
  ])('%s does not lose the session', async (_how, create) => {
    const { server, clientOf, storedFor } = await startShop()
    const factory = create()
    const first = clientOf(factory)
    await first.callTool('counter_add')
    await first.listTools()
    const { structuredContent } = await clientOf(factory).callTool('counter_add')
    expect(structuredContent).toEqual({ count: 2 })
    expect(namesIn(await storedFor(clientOf(factory)))).toContain('counter_add')
    server.forgetSessions()
    expect((await clientOf(factory).callTool('counter_add')).structuredContent).toEqual({
      count: 1,
    })
    expect(server.count('initialize')).toBe(2)
  })

  test('in one file does not lose the session', async () => {
    const { server, clientOf, folder } = await startShop()
    const file = folder.file('all.json')
    const first = clientOf(inFile(file))
    await first.listTools()
    server.forgetSessions()
    await first.callTool('counter_add')
    await first.listTools()
    const { sessionId, tools } = (await new FileSessionInfo(file).getRecord()) ?? {}
    expect([sessionId]).toEqual(server.sessions)
    expect(tools?.tools.length).toBeGreaterThan(0)
  })
})

describe('nothing is stored, and nothing fails,', () => {
  const failing = (): Promise<never> => Promise.reject(new Error('disk full'))

  test.each([
    ['without a factory', undefined],
    ['by a factory in memory', { createSession: () => new SessionInfo() }],
    [
      'if the factory throws',
      {
        createSession(_server: unknown, _scope: unknown, purpose?: string): SessionInfo {
          if (purpose === 'tools') throw new Error('a thread is missing')
          return storeWith({ durable: true })
        },
      },
    ],
    [
      'if the store fails',
      { createSession: () => storeWith({ durable: true, getRecord: failing, setRecord: failing }) },
    ],
    [
      'if the store has only an id',
      {
        createSession: () =>
          storeWith({ durable: true, getRecord: async () => undefined, setRecord: async () => {} }),
      },
    ],
  ])('%s', async (_how, factory) => {
    const { clientOf, storedFor } = await startShop()
    const client = clientOf(factory)
    const observed = recordEvents(client)
    expect(namesIn(await client.listTools())).toContain('echo')
    await client.dispose()
    expect(await storedFor(clientOf(factory))).toBeUndefined()
    expect(warningsOf(observed).filter((text) => text.includes('tools'))).toEqual([])
  })

  test('if the factory does not answer', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    const { clientOf, storedFor } = await startShop()
    const asked = deferred()
    const createSession: SessionInfoSource['createSession'] = (_server, _scope, purpose) => {
      if (purpose !== 'tools') return new SessionInfo()
      asked.resolve()
      return new Promise(() => {})
    }
    const client = clientOf({ createSession })
    const stored = storedFor(client)
    await asked.promise
    await vi.advanceTimersByTimeAsync(2000)
    expect(await stored).toBeUndefined()
    expect(namesIn(await client.listTools())).toContain('echo') // is not asked again
  })
})

test('reads the stored list of a server of a directory, and reports one that is missing there', async () => {
  const { proxy, inFolder, storedFor } = await startShop()
  const retrieve = vi.fn<() => Promise<{ mcpUrl: string }>>(async () => ({ mcpUrl: proxy.url }))
  const options = { directory: { retrieve, list: async () => [] }, scope: 'run' } as const
  {
    await using client = new McpClient(
      { slug: 'shop' },
      { ...options, sessionInfoFactory: inFolder() },
    )
    await runInSessionScope(() => client.listTools())
  }
  await using client = new McpClient(
    { slug: 'shop' },
    { ...options, sessionInfoFactory: inFolder() },
  )
  expect(namesIn(await storedFor(client))).toContain('echo')
  retrieve.mockRejectedValue(new Error('There is no shop'))
  await using other = new McpClient(
    { slug: 'shop' },
    { ...options, sessionInfoFactory: inFolder() },
  )
  await expect(storedFor(other)).rejects.toThrow('There is no shop')
})
