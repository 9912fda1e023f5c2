import { freePort, startRecordingProxy, startStatefulServer } from '@x/test-kit'
import { describe, expect, test } from 'vitest'
import { McpClients, runInSessionScope, SessionPool } from '../src/index.ts'
import { rejectionOf } from './setting.ts'

test('opens nothing before it is asked', async () => {
  await using server = await startStatefulServer()
  await using clients = new McpClients({ shop: { url: server.url } })
  expect(clients.names).toEqual(['shop'])
  expect(clients.status()).toEqual([{ name: 'shop', state: 'untried' }])
  expect(server.connections).toBe(0)
})

test('one that is down costs nobody else, and is listed with its reason', async () => {
  await using good = await startStatefulServer()
  await using better = await startStatefulServer()
  const port = await freePort()
  const servers = {
    z: { url: better.url },
    down: { url: `http://127.0.0.1:${port}/mcp` },
    a: { url: good.url },
  }
  await using clients = new McpClients(servers)
  const lists = await clients.listTools()
  expect(lists.map(({ name }) => name)).toEqual(['z', 'a'])
  expect(lists.map(({ tools }) => tools.length)).toEqual([6, 6])
  expect(clients.status()).toMatchObject([
    { name: 'z', state: 'up' },
    { name: 'down', state: 'down', error: { code: 'UNREACHABLE' } },
    { name: 'a', state: 'up' },
  ])
  expect(lists[1]?.client).toBe(clients.get('a'))
})

test('a server that was down is up when it answers', async () => {
  await using server = await startStatefulServer({
    initialize: { times: 1, answer: { status: 500, body: 'no' } },
  })
  await using clients = new McpClients({ shop: { url: server.url } })
  expect(await clients.listTools()).toEqual([])
  expect(clients.status()).toMatchObject([{ state: 'down', error: { code: 'REJECTED' } }])
  expect(await clients.listTools()).toHaveLength(1)
  expect(clients.status()).toEqual([{ name: 'shop', state: 'up' }])
})

test('a server that hangs is down when its time is up', async () => {
  await using server = await startStatefulServer()
  await using proxy = await startRecordingProxy(server.url)
  proxy.inject({ match: ({ rpcMethod }) => rpcMethod === 'tools/list', action: 'hang' })
  await using clients = new McpClients({ hangs: { url: proxy.url }, shop: { url: server.url } })
  expect(await clients.listTools({ timeoutMs: 500 })).toMatchObject([{ name: 'shop' }])
  expect(clients.status()).toMatchObject([{ state: 'down', error: { code: 'TIMEOUT' } }, {}])
})

test('asks so many at a time, and not more', async () => {
  await using server = await startStatefulServer()
  let asked = 0
  let most = 0
  const headers = async ({ rpcMethod }: { rpcMethod?: string | undefined }): Promise<{}> => {
    if (rpcMethod === 'server/discover') most = Math.max(most, ++asked)
    return {}
  }
  const servers = Object.fromEntries(
    Array.from({ length: 12 }, (_, n) => [`s${n}`, { url: server.url, headers }]),
  )
  await using clients = new McpClients(servers, { concurrency: 3 })
  for (const name of clients.names) {
    clients.get(name)?.on('state', ({ to }) => void (to === 'active' && asked--))
  }
  expect((await clients.listTools()).map(({ name }) => name)).toEqual(Object.keys(servers))
  expect(most).toBe(3)
  expect(() => new McpClients({}, { concurrency: 0 })).toThrow(TypeError)
})

test('an abort is an abort, and marks nobody as down', async () => {
  await using server = await startStatefulServer()
  await using clients = new McpClients({ shop: { url: server.url } })
  const signal = AbortSignal.abort(new Error('enough'))
  expect(await rejectionOf(clients.listTools({ signal }))).toMatchObject({ message: 'enough' })
  expect(clients.status()).toMatchObject([{ state: 'untried' }])
})

describe('dispose()', () => {
  test('closes all, the last one first, also where one is gone; and nothing is opened after it', async () => {
    await using first = await startStatefulServer()
    await using last = await startStatefulServer()
    const gone = await startStatefulServer()
    const servers = { first: { url: first.url }, gone: { url: gone.url }, last: { url: last.url } }
    const clients = new McpClients(servers)
    const ended: string[] = []
    for (const name of clients.names) {
      clients.get(name)?.on('state', ({ from }) => void (from === 'disposing' && ended.push(name)))
    }
    const warnings: string[] = []
    clients
      .get('gone')
      ?.on('log', ({ level, message }) => void warnings.push(`${level} ${message}`))
    await clients.listTools()
    await gone[Symbol.asyncDispose]()
    await clients.dispose()
    await clients.dispose()
    expect(ended).toEqual(['last', 'gone', 'first'])
    expect(warnings).toContainEqual(expect.stringMatching(/^warning .*could not be ended/))
    expect([...first.sessions, ...last.sessions]).toEqual([])

    const closed = { code: 'CLOSED', outcome: 'not-executed' }
    expect(await rejectionOf(clients.listTools())).toMatchObject(closed)
    const client = clients.get('first')
    expect(await rejectionOf(client?.readResource('x') ?? Promise.resolve())).toMatchObject(closed)
    expect(first.count('initialize')).toBe(1)
  })

  test('leaves the clients of a pool to the pool', async () => {
    await using server = await startStatefulServer()
    await using pool = new SessionPool()
    await using clients = new McpClients({ shop: { url: server.url } }, { pool })
    await runInSessionScope(async () => {
      await clients.listTools()
      const client = pool.acquire({ url: server.url })
      await client.callTool('counter_add')
      await clients.dispose()
      const result = await client.callTool('counter_add')
      expect(result.structuredContent).toEqual({ count: 2 })
    })
    expect(server.count('initialize')).toBe(1)
  })
})
