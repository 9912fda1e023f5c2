import { setImmediate } from 'node:timers/promises'
import { McpClient, StaticServerDirectory } from '@x/mcp-client'
import type { McpServerConfig } from '@x/mcp-client'
import { deferred, seededRandom, startRecordingProxy, startLegacyServer } from '@x/mcp-testing'
import type { RecordingProxy, LegacyServer } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { SessionInfoDebugStateFactory } from '../src/index.ts'
import { MemoryDebugStateStore, createDebugStateServer } from '../src/server/index.ts'

interface Rivals extends AsyncDisposable {
  readonly server: LegacyServer
  /** Proxy of the MCP server. */
  readonly proxy: RecordingProxy
  /** Proxy of the debug-state service. */
  readonly state: RecordingProxy
  /** Two clients with separate factories, as in two processes. */
  readonly clients: readonly [McpClient, McpClient]
  /** Reasons of `sessionReplaced`. */
  readonly replaced: readonly string[]
  readonly trouble: readonly unknown[]
  stored(): Promise<string | undefined>
}

type Config = (url: string) => McpServerConfig

const configs: Readonly<Record<string, Config>> = {
  'a URL': (url) => ({ url }),
  'a slug': () => ({ slug: 'shop' }),
}

async function startRivals(config: Config): Promise<Rivals> {
  const server = await startLegacyServer()
  const proxy = await startRecordingProxy(server.url)
  const service = createDebugStateServer({ store: new MemoryDebugStateStore() })
  const state = await startRecordingProxy(await service.listen())
  const replaced: string[] = []
  const trouble: unknown[] = []
  const factories: SessionInfoDebugStateFactory[] = []
  const createFactory = (): SessionInfoDebugStateFactory => {
    const factory = new SessionInfoDebugStateFactory({
      baseUrl: state.url,
      agentId: 'agent',
      env: {},
      onWarning: (warning) => trouble.push(warning),
    })
    factories.push(factory)
    return factory
  }
  const createClient = (): McpClient => {
    const client = new McpClient(config(proxy.url), {
      sessionInfoFactory: createFactory(),
      directory: new StaticServerDirectory({ shop: proxy.url }),
    })
    client.on('sessionReplaced', ({ reason }) => replaced.push(reason))
    client.on('log', (event) => void (event.level === 'debug' || trouble.push(event)))
    return client
  }
  const clients = [createClient(), createClient()] as const
  return {
    server,
    proxy,
    state,
    clients,
    replaced,
    trouble,
    stored: () => {
      const known = config(proxy.url)
      const slug = 'slug' in known ? known.slug : undefined
      return createFactory().createSession({ slug, mcpUrl: proxy.url }).getSessionId()
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(clients.map((client) => client.dispose()))
      await Promise.all(factories.map((factory) => factory.close()))
      await state.stop()
      await service.close()
      await proxy.stop()
      await server[Symbol.asyncDispose]()
    },
  }
}

async function turns(random: () => number, most: number): Promise<void> {
  for (let left = Math.floor(random() * (most + 1)); left > 0; left--) await setImmediate()
}

/** Both open a session before either has stored one. */
async function openBoth({ proxy }: Rivals): Promise<void> {
  const opened = deferred()
  let count = 0
  proxy.inject({
    match: ({ rpcMethod }) => rpcMethod === 'initialize',
    async action() {
      if (++count === 2) opened.resolve()
      await opened.promise
      return 'forward'
    },
  })
}

const ended = (rivals: Rivals): Promise<unknown> =>
  rivals.proxy.waitFor(({ httpMethod, end }) => httpMethod === 'DELETE' && end === 'complete')

const sessionsOf = (clients: Rivals['clients']): Promise<(string | undefined)[]> =>
  Promise.all(clients.map((client) => client.getSessionId()))

describe.each(Object.entries(configs))('two processes, a server known by %s', (_name, config) => {
  test('share the first session when both open one at the same time', async () => {
    const courses = new Set<string>()
    for (let seed = 1; seed <= 60; seed++) {
      const random = seededRandom(seed)
      await using rivals = await startRivals(config)
      const { clients, server, proxy, state } = rivals
      await openBoth(rivals)
      state.inject({
        match: () => true,
        async action() {
          await turns(random, 20)
          return 'forward'
        },
      })
      const answers = await Promise.all(
        clients.flatMap((client) =>
          Array.from({ length: 5 }, async (_, n) => {
            if (n > 0) await turns(random, 60)
            const { isError, content } = await client.callTool('echo', { text: `${n}` })
            return { isError, content }
          }),
        ),
      )
      expect(answers.filter(({ isError }) => isError)).toEqual([])
      await ended(rivals)
      const [first, second] = await sessionsOf(clients)
      expect(server.sessions).toEqual([first])
      expect(second).toBe(first)
      expect(await rivals.stored()).toBe(first)
      expect(rivals.replaced).toEqual(['Another process stored its session first'])
      // The state is shared from now on.
      await clients[0].callTool('counter_add')
      const { content } = await clients[1].callTool('counter_add')
      expect(content).toEqual([{ type: 'text', text: 'counter is 2' }])
      for (const client of clients) await client.dispose()
      expect(server.sessions).toEqual([first])
      expect(await rivals.stored()).toBe(first)
      expect(server.count('initialize')).toBe(2)
      expect(server.executions('echo')).toBe(10)
      expect(proxy.count({ httpMethod: 'DELETE' })).toBe(1)
      expect(rivals.trouble).toEqual([])
      courses.add(state.exchanges.map(({ httpMethod, status }) => `${httpMethod} ${status}`).join())
    }
    expect(courses.size).toBeGreaterThan(3) // a race with only one outcome proves nothing
  }, 60_000)

  test('share a session that is being stored while the second process starts', async () => {
    const courses = new Set<string>()
    for (let seed = 1; seed <= 60; seed++) {
      const random = seededRandom(seed)
      await using rivals = await startRivals(config)
      const { clients, server, proxy, state } = rivals
      state.inject({
        match: () => true,
        async action({ httpMethod }) {
          await turns(random, httpMethod === 'PUT' ? 60 : 5)
          return 'forward'
        },
      })
      const slow = clients[0].callTool('slow')
      await state.waitFor(({ httpMethod }) => httpMethod === 'PUT')
      await turns(random, 120)
      const answer = await clients[1].callTool('counter_add')
      expect(answer.content).toEqual([{ type: 'text', text: 'counter is 1' }])
      await server.waitFor(({ toolName }) => toolName === 'slow')
      server.release('done')
      expect((await slow).content).toEqual([{ type: 'text', text: 'done' }])
      for (const client of clients) await client.callTool('echo', { text: 'b' })
      for (const client of clients) await client.dispose()
      expect(server.sessions).toEqual([await rivals.stored()])
      expect(server.executions('slow') + server.executions('counter_add')).toBe(2)
      expect(proxy.count({ httpMethod: 'DELETE' })).toBe(server.count('initialize') - 1)
      expect(rivals.trouble).toEqual([])
      courses.add(state.exchanges.map(({ httpMethod, status }) => `${httpMethod} ${status}`).join())
    }
    expect(courses.size).toBeGreaterThan(3)
  }, 60_000)

  test('finish a call in flight in the lost session, and then end that session', async () => {
    await using rivals = await startRivals(config)
    const { clients, server, proxy, state } = rivals
    await openBoth(rivals)
    const called = deferred()
    state.inject({
      match: ({ httpMethod }) => httpMethod === 'PUT',
      async action() {
        await called.promise
        return 'forward'
      },
    })
    const slow = clients.map((client) => client.callTool('slow'))
    await server.waitFor(() => server.count('tools/call') === 2)
    const replaced = deferred()
    for (const client of clients) client.on('sessionReplaced', () => replaced.resolve())
    called.resolve()
    await replaced.promise
    const [first, second] = await sessionsOf(clients)
    expect(second).toBe(first)
    expect(server.sessions).toHaveLength(2)
    for (const client of clients) await client.callTool('counter_add')
    expect(proxy.count({ httpMethod: 'DELETE' })).toBe(0)
    server.release('done')
    server.release('done')
    for (const answer of await Promise.all(slow)) {
      expect(answer.content).toEqual([{ type: 'text', text: 'done' }])
    }
    await ended(rivals)
    expect(server.sessions).toEqual([first])
    expect(rivals.trouble).toEqual([])
  })

  test('end only the own session when a process ends before it learns of the race', async () => {
    await using rivals = await startRivals(config)
    const { clients, server, proxy, state } = rivals
    await openBoth(rivals)
    const disposing = deferred()
    state.inject({
      match: ({ httpMethod }) => httpMethod === 'PUT',
      async action() {
        await disposing.promise
        return 'forward'
      },
    })
    await Promise.all(clients.map((client) => client.callTool('echo', { text: 'a' })))
    const disposed = clients.map((client) => client.dispose())
    disposing.resolve()
    await Promise.all(disposed)
    expect(server.sessions).toEqual([await rivals.stored()])
    expect(proxy.count({ httpMethod: 'DELETE' })).toBe(1)
    expect(rivals.trouble).toEqual([])
  })
})
