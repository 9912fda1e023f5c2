import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { InMemoryStore, MemorySaver } from '@langchain/langgraph'
import {
  deferred,
  startLegacyServer,
  startModernServer,
  startRecordingProxy,
  startTestServer,
} from '@x/mcp-testing'
import type { LegacyServer, RecordingProxy, TestTool } from '@x/mcp-testing'
import { createAgent } from 'langchain'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import {
  createMcpTools,
  FileSessionInfoFactory,
  runInSessionScope,
  SessionInfoFactory,
  type CreateMcpToolsOptions,
  type McpTool,
  type McpTools,
  type ToolLogEntry,
} from '../src/index.ts'
import { isRpc } from './agent-world.ts'
import { ScriptedModel } from './scripted-model.ts'
import { startShop } from './shop.ts'

const DOWN = 'http://127.0.0.1:9/mcp'

function named(tools: readonly McpTool[], name: string): McpTool {
  const found = tools.find((one) => one.name === name)
  if (found === undefined) throw new Error(`There is no tool ${name}`)
  return found
}

async function counterOf(mcp: McpTools): Promise<McpTool> {
  return named(await mcp.listTools(), 'counter_add')
}

interface RecordedServer extends AsyncDisposable {
  readonly server: LegacyServer
  readonly proxy: RecordingProxy
}

async function startRecordedServer(): Promise<RecordedServer> {
  const server = await startLegacyServer()
  const proxy = await startRecordingProxy(server.url)
  return {
    server,
    proxy,
    async [Symbol.asyncDispose]() {
      await proxy.close()
      await server[Symbol.asyncDispose]()
    },
  }
}

interface Conversation {
  say(text: string, thread: string, configurable?: Record<string, unknown>): Promise<string>
}

async function agentOf(
  mcp: McpTools,
  keepers: { readonly store?: InMemoryStore } = {},
): Promise<Conversation> {
  const agent = createAgent({
    model: new ScriptedModel(),
    tools: await mcp.listTools(),
    checkpointer: new MemorySaver(),
    ...keepers,
  })
  return {
    async say(content, thread_id, configurable = {}) {
      const { messages } = await agent.invoke(
        { messages: [{ role: 'user', content }] },
        { configurable: { ...configurable, thread_id } },
      )
      return messages.at(-1)?.text ?? ''
    },
  }
}

/** Collects log entries. */
function logged(): {
  readonly log: CreateMcpToolsOptions['log']
  readonly entries: ToolLogEntry[]
} {
  const entries: ToolLogEntry[] = []
  return { entries, log: (entry) => entries.push(entry) }
}

test('opens nothing before the first use', async () => {
  const { server, mcp } = await startShop()
  expect(mcp.status()).toEqual([{ name: 'shop', state: 'untried' }])
  await mcp.close()
  expect(server.connections).toBe(0)
})

test('refuses a config that names no server at once', () => {
  expect(() => createMcpTools({ servers: { shop: { url: 'nonsense' } } })).toThrow(
    expect.objectContaining({ name: 'McpClientError', code: 'CONFIG' }),
  )
})

describe('several servers', () => {
  test('opens no listening stream to a server with listen: false', async () => {
    await using loud = await startRecordedServer()
    await using quiet = await startRecordedServer()
    await using mcp = createMcpTools({
      servers: { loud: { url: loud.proxy.url }, quiet: { url: quiet.proxy.url, listen: false } },
    })
    const counters = (await mcp.listTools()).filter(({ name }) => name.includes('counter_add'))
    expect(counters).toHaveLength(2)
    for (const counter of counters) await counter.invoke({})
    await loud.proxy.waitFor(({ httpMethod }) => httpMethod === 'GET')
    expect(quiet.proxy.count({ httpMethod: 'GET' })).toBe(0)
  })

  test('limits the handshake of one server by its handshakeMs', async () => {
    await using server = await startLegacyServer()
    await using slow = await startRecordingProxy(server.url)
    slow.inject({ match: ({ rpcMethod }) => rpcMethod === 'initialize', action: 'hang' })
    await using mcp = createMcpTools({
      servers: { slow: { url: slow.url, handshakeMs: 50 } },
      onServerError: 'throw',
    })
    await expect(mcp.listTools()).rejects.toMatchObject({
      code: 'TIMEOUT',
      message: expect.stringContaining('raise handshakeMs'),
    })
  })

  test('returns the tools in the order of the config', async () => {
    const gate = deferred<'forward'>()
    await using server = await startLegacyServer()
    await using slow = await startRecordingProxy(server.url)
    slow.inject({
      match: ({ rpcMethod }) => rpcMethod === 'initialize',
      action: () => gate.promise,
    })
    await using fast = await startModernServer()
    await using mcp = createMcpTools({
      servers: { slow: { url: slow.url }, fast: { url: fast.url } },
      log: logged().log,
    })
    const listing = mcp.listTools()
    await fast.waitFor(({ rpcMethod }) => rpcMethod === 'tools/list')
    gate.resolve('forward')
    const servers = (await listing).map(({ origin }) => origin.server.name)
    expect([...new Set(servers)]).toEqual(['slow', 'fast'])
    expect(servers.lastIndexOf('slow')).toBeLessThan(servers.indexOf('fast'))
    expect(mcp.status()).toEqual([
      { name: 'slow', state: 'up' },
      { name: 'fast', state: 'up' },
    ])
  })

  test('leaves out a server that is down, says why, and asks it again', async () => {
    await using server = await startLegacyServer()
    const { log, entries } = logged()
    await using mcp = createMcpTools({
      servers: { broken: { url: DOWN }, shop: { url: server.url } },
      log,
    })
    const tools = await mcp.listTools()
    expect(new Set(tools.map(({ origin }) => origin.server.name))).toEqual(new Set(['shop']))
    expect(mcp.status()).toEqual([
      {
        name: 'broken',
        state: 'down',
        error: {
          code: 'UNREACHABLE',
          message: expect.stringContaining('initialize of MCP server "broken"'),
          at: expect.stringMatching(/^\d{4}-.*Z$/),
        },
      },
      { name: 'shop', state: 'up' },
    ])
    expect(JSON.parse(JSON.stringify(mcp.status()))).toEqual(mcp.status())
    expect(entries).toMatchObject([{ level: 'warning', code: 'SERVER_DOWN', server: 'broken' }])
    await mcp.listTools()
    expect(entries).toHaveLength(2)
    expect(server.count('tools/list')).toBe(1) // a cached list is not requested again
  })

  test.each(['shared', 'run'] as const)(
    'names a program that ended by its key, with its standard error (%s)',
    async (session) => {
      const program = 'console.error("cannot open shop.db"); process.exit(3)'
      const told: string[] = []
      await using mcp = createMcpTools({
        servers: { shop: { command: process.execPath, args: ['-e', program] } },
        session,
        log: ({ message }) => told.push(message),
      })
      expect(await mcp.listTools()).toEqual([])
      expect(told).toEqual([
        'MCP server "shop" is left out, because it gave no list of its tools: ' +
          'initialize of MCP server "shop": its process ended with exit code 3. ' +
          'Its standard error: cannot open shop.db. The next list asks it again.',
      ])
      expect(mcp.status()).toMatchObject([{ error: { code: 'UNREACHABLE' } }])
    },
  )

  test('starts one program for all threads, unless its entry says otherwise', async () => {
    const program = fileURLToPath(new URL('counting-program.mjs', import.meta.url))
    const command = { command: process.execPath, args: [program] }
    await using mcp = createMcpTools({
      handshakeMs: 240_000, // a busy machine starts programs slowly
      servers: { shared: command, own: { ...command, session: 'thread' } },
      session: 'thread',
      prefixToolNames: true,
    })
    const tools = await mcp.listTools()
    const processes = async (server: string): Promise<Set<unknown>> => {
      const pid = tools.find(({ origin }) => origin.server.name === server)
      const threads = ['t1', 't2']
      return new Set(
        await Promise.all(
          threads.map(async (thread_id) => pid?.invoke({}, { configurable: { thread_id } })),
        ),
      )
    }
    expect((await processes('shared')).size).toBe(1)
    expect((await processes('own')).size).toBe(2)
  })

  test.each(['user', 7])('refuses the session %j of an entry', (session) => {
    const servers = { shop: { url: DOWN, session } }
    expect(() => createMcpTools({ servers } as never)).toThrow(
      /servers\.shop: option "session" must be/,
    )
  })

  test('has a code in status() for an error response of the server', async () => {
    await using server = await startTestServer(async (request, response) => {
      let body = ''
      for await (const chunk of request) body += String(chunk)
      if (request.method !== 'POST') return void response.writeHead(405).end()
      const { id, method } = JSON.parse(body) as { id?: number; method: string }
      if (id === undefined) return void response.writeHead(202).end()
      const result = {
        protocolVersion: '2025-11-25',
        capabilities: { tools: {} },
        serverInfo: { name: 'shop', version: '1' },
      }
      const failure = { code: -32_000, message: 'no tools today' }
      response.setHeader('content-type', 'application/json')
      const answer = method === 'initialize' ? { result } : { error: failure }
      response.end(JSON.stringify({ jsonrpc: '2.0', id, ...answer }))
    })
    await using mcp = createMcpTools({
      servers: { shop: { url: server.url, era: 'legacy' } },
      log: () => {},
    })
    expect(await mcp.listTools()).toEqual([])
    const [status] = mcp.status()
    expect(status?.error?.code).toBe('REJECTED')
    expect(status?.error?.message).toContain('no tools today')
  })

  test("has a code in status() for an error of the caller's function", async () => {
    const down = new TypeError('the directory is closed today')
    await using mcp = createMcpTools({
      servers: { shop: { slug: 'shop' } },
      directory: { retrieve: () => Promise.reject(down) },
      log: () => {},
    })
    expect(await mcp.listTools()).toEqual([])
    expect(mcp.status()[0]?.error).toMatchObject({
      code: 'CONFIG',
      message: expect.stringContaining(down.message),
    })
  })

  test('does not ask a server that is down again within retryDownAfterMs', async () => {
    const { log, entries } = logged()
    await using mcp = createMcpTools({ servers: { broken: { url: DOWN } }, log })
    const retryDownAfterMs = 3_600_000
    expect(await mcp.listTools({ retryDownAfterMs })).toEqual([])
    expect(await mcp.listTools({ retryDownAfterMs })).toEqual([])
    expect(entries).toHaveLength(1) // logged with the request
    await mcp.listTools({ retryDownAfterMs, forceRefresh: true })
    expect(entries).toHaveLength(2)
  })

  test('logs names of two servers once, however often tools are listed', async () => {
    await using server = await startLegacyServer()
    const { log, entries } = logged()
    const servers = { one: { url: server.url }, two: { url: server.url } }
    await using mcp = createMcpTools({ servers, log })
    await mcp.listTools()
    expect(entries.map(({ code }) => code)).toEqual(['NAME_COLLISION'])
    await mcp.listTools()
    expect(entries).toHaveLength(1)
  })

  test('names the unusable tools of the last list in the status of a server', async () => {
    const { server, mcp } = await startShop({ log: () => {} })
    const broken = { properties: { a: { $ref: '#/nowhere' } } }
    server.tools = [
      { name: 'good', run: () => 'done' },
      { name: 'bad', inputSchema: { type: 'object', ...broken }, run: () => 'done' },
    ]
    for (let times = 0; times < 2; times++) {
      const tools = await mcp.listTools({ forceRefresh: true })
      expect(tools.map(({ name }) => name)).toEqual(['good'])
    }
    const quarantined = [expect.objectContaining({ toolName: 'bad' })]
    expect(mcp.status()).toEqual([{ name: 'shop', state: 'partial', quarantined }])
    expect(JSON.parse(JSON.stringify(mcp.status()))).toEqual(mcp.status())
    server.tools = server.tools.slice(0, 1)
    await mcp.listTools({ forceRefresh: true })
    expect(mcp.status()).toEqual([{ name: 'shop', state: 'up' }])
  })

  test("rejects with the first error with 'throw'", async () => {
    await using server = await startLegacyServer()
    await using mcp = createMcpTools({
      servers: { shop: { url: server.url }, down: { url: DOWN } },
      onServerError: 'throw',
    })
    await expect(mcp.listTools()).rejects.toMatchObject({ code: 'UNREACHABLE' })
  })
})

describe("session: 'shared'", () => {
  test('shares one session between all threads, and ends it with the tools', async () => {
    const { server, mcp } = await startShop()
    const agent = await agentOf(mcp)
    expect(await agent.say('call counter_add', 't1')).toContain('counter is 1')
    expect(await agent.say('call counter_add', 't2')).toContain('counter is 2')
    expect(server.count('initialize')).toBe(1)
    await mcp.listTools()
    expect(server.count('tools/list')).toBe(1)
    await mcp.listTools({ forceRefresh: true })
    expect(server.count('tools/list')).toBe(2)
    await mcp.close()
    expect(server.sessions).toEqual([])
  })

  test('lets a factory decide where sessions are kept', async () => {
    await using server = await startLegacyServer()
    const asked: unknown[] = []
    class Spy extends SessionInfoFactory {
      override createSession(
        ...args: Parameters<SessionInfoFactory['createSession']>
      ): ReturnType<SessionInfoFactory['createSession']> {
        asked.push(args.slice(1))
        return super.createSession(...args)
      }
    }
    await using mcp = createMcpTools({
      servers: { shop: { url: server.url } },
      session: new Spy(),
      principal: ({ configurable }) => String(configurable?.['user']),
    })
    const config = { configurable: { user: 'ada', thread_id: 't1' } }
    const tools = await mcp.listTools({ config })
    await named(tools, 'counter_add').invoke({}, config)
    expect(asked).toEqual([[{ principal: 'ada' }, 'tools'], [{ principal: 'ada' }]])
  })
})

describe("session: 'thread'", () => {
  test('opens a session per thread, which the next tools of the same store continue', async () => {
    await using server = await startLegacyServer()
    const store = new InMemoryStore()
    const options = { servers: { shop: { url: server.url } }, session: 'thread' } as const
    {
      await using mcp = createMcpTools(options)
      const agent = await agentOf(mcp, { store })
      await expect.poll(() => server.sessions).toEqual([]) // the session of the list ends
      expect(await agent.say('call counter_add {"by":5}', 't1')).toContain('counter is 5')
      expect(await agent.say('call counter_add', 't2')).toContain('counter is 1')
      expect(await agent.say('call counter_add', 't1')).toContain('counter is 6')
    }
    expect(server.sessions).toHaveLength(2) // kept for the next process
    const handshakes = server.count('initialize')
    await using mcp = createMcpTools(options)
    const agent = await agentOf(mcp, { store })
    expect(server.count('initialize')).toBe(handshakes + 1) // for the list
    expect(await agent.say('call counter_add', 't1')).toContain('counter is 7')
    expect(await agent.say('call counter_add', 't2')).toContain('counter is 2')
    expect(server.count('initialize')).toBe(handshakes + 1)
    expect(server.count('tools/list')).toBe(2)
    expect(server.count('server/discover')).toBe(2) // once for each of the tools
  })

  test('gives a list before the session that has read it ends', async () => {
    await using recorded = await startRecordedServer()
    const { server, proxy } = recorded
    const listed = deferred()
    proxy.inject({
      match: ({ httpMethod }) => httpMethod === 'DELETE',
      action: async () => {
        await listed.promise
        return 'forward'
      },
    })
    await using mcp = createMcpTools({ servers: { shop: { url: proxy.url } }, session: 'thread' })
    await mcp.listTools()
    listed.resolve()
    await mcp.close()
    expect(server.sessions).toEqual([]) // a DELETE that is late is given up
  })

  test('opens one session for parallel calls of a thread', async () => {
    const { server, mcp } = await startShop({ session: 'thread' })
    const agent = await agentOf(mcp, { store: new InMemoryStore() })
    await agent.say('call counter_add\ncall counter_add\ncall cart_add {"item":"apples"}', 't1')
    expect(server.sessions).toHaveLength(1)
    expect(server.executions('counter_add')).toBe(2)
  })

  test('keeps sessions of threads in memory without a store, with one log entry', async () => {
    const { log, entries } = logged()
    const { server, mcp } = await startShop({ session: 'thread', log })
    const agent = await agentOf(mcp)
    await agent.say('call counter_add', 't1')
    await agent.say('call counter_add', 't2')
    expect(await agent.say('call counter_add', 't1')).toContain('counter is 2')
    const counter = await counterOf(mcp)
    expect(await counter.invoke({})).toBe('counter is 1') // without a thread
    expect(await counter.invoke({})).toBe('counter is 2')
    expect(entries).toMatchObject([{ code: 'SESSION_IN_MEMORY', server: expect.any(String) }])
    expect(JSON.stringify(entries)).toContain('the run has no store')
    await mcp.close()
    expect(server.sessions).toEqual([]) // no process could continue them
  })

  test('warns of a call without a thread once, by default, and not of a list', async () => {
    const emitted = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    const { mcp } = await startShop({ session: 'thread', log: undefined })
    const counter = await counterOf(mcp)
    expect(emitted).not.toHaveBeenCalled()
    await counter.invoke({})
    await counter.invoke({})
    const about = { type: 'McpToolWarning', code: 'SESSION_IN_MEMORY' }
    expect(emitted.mock.calls).toEqual([[expect.stringContaining('thread_id'), about]])
  })

  test('keeps sessions of threads in the folder of a factory', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'sessions-'))
    onTestFinished(() => rm(folder, { recursive: true, force: true }))
    const { log, entries } = logged()
    const sessionInfoFactory = new FileSessionInfoFactory(folder)
    const { server, mcp } = await startShop({ session: 'thread', sessionInfoFactory, log })
    await (await agentOf(mcp)).say('call counter_add', 't1')
    await mcp.close()
    const servers = { shop: { url: server.url } }
    await using next = createMcpTools({ servers, session: 'thread', sessionInfoFactory, log })
    const agent = await agentOf(next)
    expect(await agent.say('call counter_add', 't1')).toContain('counter is 2')
    expect(await agent.say('call counter_add', 't2')).toContain('counter is 1')
    expect(entries).toEqual([])
  })

  test('closes idle sessions over the limit, and continues stored ones', async () => {
    const { server, mcp } = await startShop({ session: 'thread', idleScopes: { max: 2 } })
    const agent = await agentOf(mcp, { store: new InMemoryStore() })
    for (const thread of ['t1', 't2', 't3', 't4', 't5']) await agent.say('call counter_add', thread)
    await expect.poll(() => server.openStreams).toBe(2)
    expect(await agent.say('call counter_add', 't1')).toContain('counter is 2')
  })

  test('reads only the list that a server reported as changed again', async () => {
    const { server, mcp } = await startShop({ session: 'thread' })
    const agent = await agentOf(mcp, { store: new InMemoryStore() })
    await agent.say('call counter_add', 't1')
    await mcp.listTools()
    expect(server.count('tools/list')).toBe(1)
    await expect.poll(() => server.openStreams).toBe(1)
    server.notify('notifications/tools/list_changed')
    await expect
      .poll(async () => {
        await mcp.listTools()
        return server.count('tools/list')
      })
      .toBe(2)
    await mcp.listTools()
    expect(server.count('tools/list')).toBe(2)
    await mcp.listTools({ forceRefresh: true })
    expect(server.count('tools/list')).toBe(3)
  })

  test('reads a list again after five minutes', async () => {
    const { server, mcp } = await startShop({ session: 'thread' })
    await mcp.listTools()
    const later = performance.now() + 300_001
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => later)
    onTestFinished(() => clock.mockRestore())
    await mcp.listTools()
    expect(server.count('tools/list')).toBe(2)
    await mcp.close()
    expect(server.sessions).toEqual([])
  })

  test('needs no session for a stateless server', async () => {
    await using server = await startModernServer()
    await using mcp = createMcpTools({ servers: { calc: { url: server.url } }, session: 'thread' })
    const agent = await agentOf(mcp, { store: new InMemoryStore() })
    expect(await agent.say('call add {"a":2,"b":3}', 't1')).toContain('5')
    expect(server.received.some(({ sessionId }) => sessionId !== undefined)).toBe(false)
    expect(server.count('initialize')).toBe(0)
  })
})

describe("session: 'run'", () => {
  test('opens one session for all agents of a run, and ends it with the run', async () => {
    const { server, mcp } = await startShop({ session: 'run' })
    const agent = await agentOf(mcp)
    const before = server.count('initialize')
    await runInSessionScope(async () => {
      expect(await agent.say('call counter_add', 't1')).toContain('counter is 1')
      expect(await agent.say('call counter_add', 't2')).toContain('counter is 2')
      expect(server.sessions).toHaveLength(1)
    })
    expect(server.count('initialize')).toBe(before + 1)
    expect(server.sessions).toEqual([])
    await runInSessionScope(async () => {
      expect(await agent.say('call counter_add', 't1')).toContain('counter is 1')
    })
    expect(server.count('tools/list')).toBe(1)
  })
})

describe('lists that are read at the same time', () => {
  const look: TestTool = { name: 'look', run: () => 'looked' }
  /** A tool that is left out. */
  const odd: TestTool = { name: 'odd', inputSchema: { type: 'list' }, run: () => 'odd' }

  test.each([
    ['run', false],
    ['run', true],
    ['thread', true],
  ] as const)(
    'all come from the server, with session: %j and forceRefresh: %j',
    async (session, forceRefresh) => {
      await using recorded = await startRecordedServer()
      const { server, proxy } = recorded
      await using mcp = createMcpTools({
        servers: { shop: { url: proxy.url } },
        session,
        log: () => {},
      })
      const list = (options = {}): Promise<string[]> =>
        runInSessionScope(async () => (await mcp.listTools(options)).map(({ name }) => name))
      await list()
      await runInSessionScope(async () => {
        const config = { configurable: { thread_id: 't1' } }
        await mcp.server('shop').callTool('counter_add', {}, { config })
        server.tools = [look, odd]
        if (forceRefresh) return
        server.forgetSessions() // the list of another session may differ
        await mcp.server('shop').callTool('look', {}, { config })
      })

      const [bothSent, firstEnded] = [deferred(), deferred()]
      let requests = 0
      proxy.inject({
        match: isRpc('tools/list'),
        action: async () => {
          if (++requests === 2) bothSent.resolve()
          await (requests === 1 ? bothSent : firstEnded).promise
          return 'forward'
        },
      })
      const lists = [list({ forceRefresh }), list({ forceRefresh })]
      expect(await Promise.race(lists)).toEqual(['look'])
      expect(mcp.status()).toMatchObject([{ quarantined: [{ toolName: 'odd' }] }])
      firstEnded.resolve()
      expect(await Promise.all(lists)).toEqual([['look'], ['look']])
    },
  )

  test.each(['shared', 'thread'] as const)(
    "end with the run of their caller, and for no other one, with session: '%s'",
    async (session) => {
      await using recorded = await startRecordedServer()
      const { proxy } = recorded
      const { log, entries } = logged()
      await using mcp = createMcpTools({ servers: { shop: { url: proxy.url } }, session, log })
      const [sent, held] = [deferred(), deferred()]
      proxy.inject({
        match: isRpc('tools/list'),
        action: async () => {
          sent.resolve()
          await held.promise
          return 'forward'
        },
      })
      const aborting = new AbortController()
      const aborted = mcp.listTools({ config: { signal: aborting.signal } })
      const other = mcp.listTools()
      await sent.promise
      aborting.abort(new Error('enough'))
      await expect(aborted).rejects.toThrow('enough')
      expect(mcp.status()).toMatchObject([{ state: 'untried' }]) // nothing is known about the server
      held.resolve()
      expect(await other).not.toEqual([])
      expect(entries).toEqual([])
    },
  )

  test('name the tools that are left out, also when the client keeps only the list of another user', async () => {
    await using recorded = await startRecordedServer()
    const { server, proxy } = recorded
    server.tools = [look, odd]
    await using mcp = createMcpTools({
      servers: { shop: { url: proxy.url } },
      session: 'thread',
      principal: ({ configurable }) => String(configurable?.['user']),
      idleScopes: { max: 1 },
      log: () => {},
    })
    const list = (user: string): Promise<readonly McpTool[]> =>
      mcp.listTools({ config: { configurable: { user } } })
    const [adaSent, bobEnded] = [deferred(), deferred()]
    proxy.inject({
      match: isRpc('tools/list'),
      times: 1,
      action: async () => {
        adaSent.resolve()
        await bobEnded.promise
        return 'forward'
      },
    })
    const ofAda = [list('ada'), list('ada')]
    await adaSent.promise
    server.tools = [look]
    await list('bob')
    expect(mcp.status()[0]?.quarantined).toBeUndefined()
    server.tools = [look, odd]
    bobEnded.resolve()
    await Promise.all(ofAda)
    expect(mcp.status()).toMatchObject([{ quarantined: [{ toolName: 'odd' }] }])
  })
})

describe('close()', () => {
  test.each(['shared', 'thread', 'run'] as const)(
    "with '%s', calls and lists are refused after it, and nothing is sent",
    async (session) => {
      const { server, mcp } = await startShop({ session })
      const counter = await counterOf(mcp)
      await Promise.all([mcp.close(), mcp.close()])
      const sent = server.received.length
      const closed = { code: 'CLOSED', message: expect.stringContaining('"shop"') }
      await expect(runInSessionScope(() => counter.invoke({}))).rejects.toMatchObject(closed)
      await expect(mcp.listTools()).rejects.toMatchObject(closed)
      expect(server.received).toHaveLength(sent)
      expect(server.openStreams).toBe(0)
    },
  )

  test('rejects a call in progress', async () => {
    const { server, mcp } = await startShop()
    const call = named(await mcp.listTools(), 'slow').invoke({})
    await server.waitFor(({ toolName }) => toolName === 'slow')
    const [outcome] = await Promise.allSettled([call, mcp.close()])
    expect(outcome).toMatchObject({ status: 'rejected', reason: { code: 'CLOSED' } })
  })
})
