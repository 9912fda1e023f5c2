import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { temporaryFolder } from '@x/internal/testing'
import { FileSessionInfo, SessionInfo } from '@x/mcp-transport'
import { startRecordingProxy, startLegacyServer } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { McpClient, runInSessionScope } from '../src/index.ts'
import type { SessionInfoSource } from '../src/index.ts'
import { inFile, storeWith } from './session-stores.ts'
import { rejectionOf, recordEvents, warningsOf } from './setting.ts'
import { startClientProcess } from './start-client-process.ts'

/** `file`: path of the session file. */
async function startShop() {
  const server = await startLegacyServer()
  const proxy = await startRecordingProxy(server.url)
  const folder = await temporaryFolder()
  return {
    server,
    proxy,
    file: join(folder.path, 'session.json'),
    async [Symbol.asyncDispose]() {
      await proxy.close()
      await server[Symbol.asyncDispose]()
      await folder[Symbol.asyncDispose]()
    },
  }
}

test.each(['killed', 'ended'])(
  'resumes in the next process with one POST after the first was %s',
  async (how) => {
    await using shop = await startShop()
    const { server, proxy, file } = shop
    await using first = await startClientProcess(proxy.url, file)
    expect(await first.ask('add')).toEqual({ count: 1 })
    expect(await first.ask('add')).toEqual({ count: 2 })
    const sessionId = await first.ask('session')
    if (how === 'killed') await first.kill()
    else await first.end()

    const mark = proxy.mark()
    await using second = await startClientProcess(proxy.url, file)
    expect(await second.ask('add')).toEqual({ count: 3 })
    expect(await second.ask('session')).toBe(sessionId)
    const posts = mark.exchanges().filter(({ httpMethod }) => httpMethod === 'POST')
    expect(posts.map((post) => [post.rpcMethod, post.sessionId, post.protocolVersion])).toEqual([
      ['tools/call', sessionId, '2025-11-25'],
    ])
    await second.end()
    expect(proxy.count({ httpMethod: 'DELETE' })).toBe(0)
    expect(server.sessions).toEqual([sessionId])
  },
)

test('leaves no socket and no timer that keeps a process alive', async () => {
  await using shop = await startShop()
  await using child = await startClientProcess(shop.proxy.url, shop.file)
  await child.ask('session') // the pipes are in use from now on
  const idle = await child.ask('resources')
  for (let n = 0; n < 3; n++) {
    await child.ask('add')
    await child.ask('dispose')
  }
  expect(await child.ask('resources')).toEqual(idle)
  await child.ask('add')
  await child.end() // resolves when the process has exited
})

test('replaces a resumed session that the server has lost', async () => {
  await using shop = await startShop()
  const { server, proxy, file } = shop
  const options = { sessionInfoFactory: inFile(file) }
  await using first = new McpClient({ url: proxy.url }, options)
  await first.callTool('counter_add')
  await first.dispose()
  server.forgetSessions()

  await using second = new McpClient({ url: proxy.url }, options)
  const observed = recordEvents(second)
  const mark = proxy.mark()
  expect((await second.callTool('counter_add')).structuredContent).toEqual({ count: 1 })
  expect(mark.exchanges().flatMap(({ rpcMethod }) => rpcMethod ?? [])).toEqual([
    'tools/call',
    'initialize',
    'notifications/initialized',
    'tools/call',
  ])
  expect(observed.filter(({ event }) => event === 'sessionReplaced')).toHaveLength(1)
  expect(JSON.parse(await readFile(file, 'utf8'))).toMatchObject({ sessionId: server.sessions[0] })
})

test('uses a session with which another process has replaced the lost one', async () => {
  await using shop = await startShop()
  const { server, proxy, file } = shop
  const options = { sessionInfoFactory: inFile(file) }
  await using one = new McpClient({ url: proxy.url }, options)
  await using other = new McpClient({ url: proxy.url }, options)
  await one.ping()
  await other.ping()
  expect(server.count('initialize')).toBe(1)
  server.forgetSessions()
  await one.callTool('counter_add')
  expect((await other.callTool('counter_add')).structuredContent).toEqual({ count: 2 })
  expect(server.count('initialize')).toBe(2)
  expect(await other.getSessionId()).toBe(await one.getSessionId())
})

test.each([1, 10])(
  'fails none of %i calls when the server has also lost the session of another process',
  async (count) => {
    await using shop = await startShop()
    const { server, proxy, file } = shop
    const options = { sessionInfoFactory: inFile(file) }
    await using one = new McpClient({ url: proxy.url }, options)
    await using other = new McpClient({ url: proxy.url }, options)
    const observed = recordEvents(one)
    await one.ping()
    await other.ping()
    server.forgetSessions()
    await other.callTool('counter_add')
    server.forgetSessions()
    const mark = proxy.mark()
    const calls = Array.from({ length: count }, () => one.callTool('counter_add'))
    const counts = (await Promise.all(calls)).map(
      ({ structuredContent }) => structuredContent?.['count'],
    )
    expect(new Set(counts)).toEqual(new Set(Array.from(counts, (_, n) => n + 1)))
    expect(mark.count({ rpcMethod: 'initialize' })).toBe(1)
    expect(mark.count({ rpcMethod: 'ping' })).toBe(1)
    expect(observed.filter(({ event }) => event === 'sessionReplaced')).toHaveLength(1)
    expect((await other.callTool('counter_add')).structuredContent).toEqual({ count: count + 1 })
  },
)

test('opens a bounded number of sessions on a server that loses every session', async () => {
  await using shop = await startShop()
  const { server, proxy, file } = shop
  const options = { sessionInfoFactory: inFile(file) }
  await using one = new McpClient({ url: proxy.url }, options)
  await using other = new McpClient({ url: proxy.url }, options)
  await one.ping()
  await other.ping()
  proxy.inject({
    match({ rpcMethod }) {
      if (rpcMethod === 'tools/call') server.forgetSessions()
      return false
    },
    action: 'forward',
  })
  const mark = proxy.mark()
  const calls = [one, other, one, other].map((client) =>
    rejectionOf(client.callTool('counter_add')),
  )
  for (const error of await Promise.all(calls)) {
    expect(error).toHaveProperty('outcome', 'not-executed')
  }
  expect(server.executions('counter_add')).toBe(0)
  expect(mark.count({ rpcMethod: 'tools/call' })).toBe(8)
  expect(mark.count({ rpcMethod: 'ping' })).toBeLessThanOrEqual(6)
})

test('does not use a record of another principal', async () => {
  await using shop = await startShop()
  const { server, proxy, file } = shop
  const sessionInfoFactory = inFile(file)
  const clientOf = (principal: string): McpClient =>
    new McpClient({ url: proxy.url }, { sessionInfoFactory, scope: { principal } })
  await using alice = clientOf('alice')
  await alice.callTool('counter_add')
  await using bob = clientOf('bob')
  expect((await bob.callTool('counter_add')).structuredContent).toEqual({ count: 1 })
  expect(server.sessions).toHaveLength(2)
})

test('treats a store that fails as empty, and logs it', async () => {
  await using server = await startLegacyServer()
  const getRecord = (): Promise<never> => Promise.reject(new Error('The record is damaged'))
  const createSession = (): SessionInfo => storeWith({ getRecord })
  await using client = new McpClient({ url: server.url }, { sessionInfoFactory: { createSession } })
  const observed = recordEvents(client)
  await client.ping()
  expect(warningsOf(observed).join()).toContain('store')
})

test.each([
  ['fails', () => Promise.reject(new Error('The store is away'))],
  ['never answers', () => new Promise<undefined>(() => {})],
] as const)('returns no session id if the store %s, and logs it', async (_how, answer) => {
  await using server = await startLegacyServer()
  let isAway = false
  const memory = new SessionInfo()
  const getSessionId = (): Promise<string | undefined> =>
    isAway ? answer() : memory.getSessionId()
  const setSessionId = (id: string | undefined): Promise<void> => memory.setSessionId(id)
  const store = storeWith({ getSessionId, setSessionId })
  const sessionInfoFactory = { createSession: () => store }
  await using client = new McpClient({ url: server.url }, { sessionInfoFactory, replay: 'never' })
  await client.ping()
  server.forgetSessions()
  await rejectionOf(client.callTool('counter_add'))
  const observed = recordEvents(client)
  isAway = true
  expect(await client.getSessionId()).toBeUndefined()
  expect(observed).toMatchObject([{ event: 'log', payload: { level: 'warning' } }])
})

test('waits for an asynchronous createSession(), also in a run, and rejects with its error', async () => {
  await using shop = await startShop()
  const { server, proxy, file } = shop
  const sessionInfoFactory = { createSession: async () => new FileSessionInfo(file) }
  await using client = new McpClient({ url: proxy.url }, { sessionInfoFactory })
  await Promise.all([client.callTool('counter_add'), client.ping()])
  await client.dispose()
  const inRun = { scope: 'run', sessionInfoFactory, terminateOnClose: false } as const
  await using next = new McpClient({ url: proxy.url }, inRun)
  await runInSessionScope(() => next.callTool('counter_add'))
  expect(server.count('initialize')).toBe(1)
  expect(server.sessions).toHaveLength(1)

  const refused = new Error('no vault for this principal')
  const refusing = { createSession: (): Promise<SessionInfo> => Promise.reject(refused) }
  await using other = new McpClient({ url: proxy.url }, { sessionInfoFactory: refusing })
  expect(await rejectionOf(other.ping())).toBe(refused)
})

test('keeps the session in memory when createSession() does not return', async () => {
  await using server = await startLegacyServer()
  const sessionInfoFactory = { createSession: () => new Promise<SessionInfo>(() => {}) }
  await using client = new McpClient({ url: server.url }, { sessionInfoFactory })
  const observed = recordEvents(client)
  await client.callTool('counter_add')
  expect(warningsOf(observed).join()).toContain('kept in memory')
})

/** The minimal contract of a store: only the two methods for the id. */
function idOnlyFactory(kept: { id?: string | undefined }, durable: boolean): SessionInfoSource {
  const getSessionId = async (): Promise<string | undefined> => kept.id
  const setSessionId = async (id: string | undefined): Promise<void> => {
    kept.id = id
  }
  return { createSession: () => storeWith({ durable, getSessionId, setSessionId }) }
}

describe.each([true, false])('clients that share only an id, durable: %s', (durable) => {
  test('use one session in turns, and only the client that opened it terminates it', async () => {
    await using shop = await startShop()
    const { server, proxy } = shop
    const kept: { id?: string | undefined } = {}
    const options = { sessionInfoFactory: idOnlyFactory(kept, durable) }
    await using one = new McpClient({ url: proxy.url }, options)
    const other = new McpClient({ url: proxy.url }, options)
    const observed = recordEvents(other)
    for (const count of [1, 3, 5]) {
      expect((await one.callTool('counter_add')).structuredContent).toEqual({ count })
      expect((await other.callTool('counter_add')).structuredContent).toEqual({ count: count + 1 })
    }
    expect(await other.listTools()).not.toEqual([])
    expect(server.sessions).toEqual([kept.id])
    expect(observed.filter(({ event }) => event === 'sessionReplaced')).toEqual([])
    await other.dispose()
    expect(server.sessions).toEqual([kept.id])
    expect((await one.callTool('counter_add')).structuredContent).toEqual({ count: 7 })
    await one.dispose()
    expect(server.sessions).toHaveLength(durable ? 1 : 0)
    expect(proxy.count({ httpMethod: 'DELETE' })).toBe(durable ? 0 : 1)
  })

  test('open one session after a loss, and both see a new generation', async () => {
    await using shop = await startShop()
    const { server, proxy } = shop
    const kept: { id?: string | undefined } = {}
    const options = { sessionInfoFactory: idOnlyFactory(kept, durable) }
    await using one = new McpClient({ url: proxy.url }, options)
    await using other = new McpClient({ url: proxy.url }, options)
    const observed = [recordEvents(one), recordEvents(other)]
    await one.callTool('counter_add')
    await other.callTool('counter_add')
    for (const generation of [2, 3]) {
      server.forgetSessions()
      expect((await one.callTool('counter_add')).structuredContent).toEqual({ count: 1 })
      expect((await other.callTool('counter_add')).structuredContent).toEqual({ count: 2 })
      expect(server.sessions).toEqual([kept.id])
      for (const events of observed) {
        const replaced = events.flatMap(({ event, payload }) =>
          event === 'sessionReplaced' ? [payload] : [],
        )
        expect(replaced.at(-1)).toMatchObject({
          oldEpoch: generation - 1,
          newEpoch: generation,
        })
      }
    }
    expect(proxy.count({ httpMethod: 'DELETE' })).toBe(0)
    expect(server.executions('counter_add')).toBe(6)
  })
})
