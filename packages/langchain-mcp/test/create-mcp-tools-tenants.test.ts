// Many users in many concurrent threads of real graphs: no user ever gets data of another user.
import { RunnableLambda, type RunnableConfig } from '@langchain/core/runnables'
import { InMemoryStore, MemorySaver } from '@langchain/langgraph'
import { seededRandom, startModernServer, startLegacyServer } from '@x/mcp-testing'
import { createAgent } from 'langchain'
import { describe, expect, test } from 'vitest'
import { createMcpTools, runInSessionScope, type McpTools } from '../src/index.ts'
import type { ToolRequest } from '../src/definitions/server-clients.ts'
import { mcpToolsMiddleware } from '../src/middleware.ts'
import { mcpSkillsMiddleware } from '../src/skills.ts'
import { ScriptedModel } from './scripted-model.ts'
import { startShop } from './shop.ts'

const USERS = ['ada', 'bob', 'cyd', 'dan', 'eve', 'fay']
const THREADS = [0, 1]
const ROUNDS = [1, 2, 3]

type Ask = (text: string, about: { user: string; thread: string }) => Promise<string>

async function agentOf(mcp: McpTools): Promise<Ask> {
  const agent = createAgent({
    model: new ScriptedModel(),
    tools: await mcp.listTools(),
    checkpointer: new MemorySaver(),
    store: new InMemoryStore(),
  })
  return async (content, { user, thread }) => {
    const configurable = { thread_id: thread, user, token: `token-of-${user}` }
    const { messages } = await agent.invoke(
      { messages: [{ role: 'user', content }] },
      { configurable },
    )
    return messages.at(-1)?.text ?? ''
  }
}

function toolsOf(url: string, session: 'thread' | 'shared' | 'run'): McpTools {
  return createMcpTools({
    servers: {
      shop: {
        url,
        headers: ({ configurable, scope }) => ({
          'x-token': (configurable['token'] as string | undefined) ?? 'nobody',
          'x-principal': scope?.principal ?? 'nobody',
        }),
      },
    },
    session,
    principal: ({ configurable }) => String(configurable?.['user']),
  })
}

type Received = Awaited<ReturnType<typeof startLegacyServer>>['received']

/** Users of each session, and sessions of each user, by the received headers. */
function tenantsOf(received: Received): ReadonlyMap<string, ReadonlySet<string>> {
  const tenants = new Map<string, Set<string>>()
  for (const { sessionId, headers } of received) {
    if (sessionId === undefined) continue
    const seen = tenants.get(sessionId) ?? new Set()
    tenants.set(
      sessionId,
      seen.add(`${String(headers['x-principal'])} ${String(headers['x-token'])}`),
    )
  }
  return tenants
}

test.each([
  ['thread', USERS.length * THREADS.length, (user: string, n: number) => `${user}-${n}`],
  // Threads of two users with the same name are different threads.
  ['thread', USERS.length * THREADS.length, (_user: string, n: number) => `thread-${n}`],
  ['shared', USERS.length, (user: string, n: number) => `${user}-${n}`],
] as const)(
  "opens with '%s' %i sessions, each with one user and one token",
  async (mode, count, name) => {
    await using server = await startLegacyServer()
    await using mcp = toolsOf(server.url, mode)
    const ask = await agentOf(mcp)
    const alone: boolean[] = []
    await Promise.all(
      USERS.flatMap((user) =>
        THREADS.map(async (n) => {
          const mine: string[] = []
          for (const round of ROUNDS) {
            const item = `${user}-${n}-${round}`
            const thread = name(user, n)
            const answer = await ask(`call cart_add {"item":"${item}"}`, { user, thread })
            mine.push(item)
            const cart = answer.replace('cart holds ', '').split(', ')
            expect(cart).toEqual(expect.arrayContaining(mine))
            expect(cart.every((one) => one.startsWith(`${user}-`))).toBe(true)
            if (mode === 'thread') alone.push(cart.length === mine.length)
          }
        }),
      ),
    )
    const tenants = tenantsOf(server.received)
    const used = [...tenants].filter(([id]) =>
      server.received.some(
        ({ sessionId, toolName }) => sessionId === id && toolName === 'cart_add',
      ),
    )
    expect(used).toHaveLength(count)
    for (const [, seen] of used) {
      const [one = '', ...others] = seen
      expect(others).toEqual([])
      const [principal, token] = one.split(' ')
      expect(token).toBe(`token-of-${principal}`)
    }
  },
)

test("opens with 'run' one session per run, with one user, and ends it with the run", async () => {
  await using server = await startLegacyServer()
  await using mcp = toolsOf(server.url, 'run')
  const ask = await agentOf(mcp)
  const lists = server.count('initialize')
  await Promise.all(
    USERS.map((user) =>
      runInSessionScope(async () => {
        for (const round of ROUNDS) {
          const answer = await ask('call counter_add', { user, thread: `${user}-${round}` })
          expect(answer).toContain(`counter is ${round}`)
        }
      }),
    ),
  )
  expect(server.count('initialize') - lists).toBe(USERS.length)
  expect(server.sessions).toEqual([])
  for (const seen of tenantsOf(server.received).values()) expect(seen.size).toBe(1)
})

test.each([1, 2, 3])(
  'sends each request of a session with the token of its owner, also if another user causes it (seed %i)',
  async (seed) => {
    const random = seededRandom(seed)
    await using server = await startLegacyServer()
    const mcp = toolsOf(server.url, 'shared')
    const bootstrap = { configurable: { user: 'ada', token: 'token-of-ada' } }
    const tool = (await mcp.listTools({ config: bootstrap })).find(
      ({ origin }) => origin.toolName === 'echo',
    )
    const aborts = new Map<string, AbortController>()
    let restarting: Promise<void> | undefined
    const use = RunnableLambda.from(async (user: string, config) => {
      for (let n = 0; n < 10; n++) {
        const controller = new AbortController()
        aborts.set(user, controller)
        const { signal } = controller
        await tool
          ?.invoke({ text: user }, { configurable: config.configurable, signal })
          .catch(() => {})
        // The run of this user causes all events of the shared sessions.
        const disturbances: readonly (() => unknown)[] = [
          () => server.forgetSessions(),
          () => server.dropListenStreams(),
          () => (restarting ??= server.restart().finally(() => (restarting = undefined))),
          () => [...aborts.values()].forEach((one) => one.abort()),
        ]
        await disturbances[Math.floor(random() * disturbances.length)]?.()
      }
    })
    await Promise.all(
      USERS.map((user) => use.invoke(user, { configurable: { user, token: `token-of-${user}` } })),
    )
    await mcp.close()
    const tenants = tenantsOf(server.received)
    expect(tenants.size).toBeGreaterThan(USERS.length)
    const pairs = USERS.map((user) => [`${user} token-of-${user}`])
    for (const seen of tenants.values()) expect(pairs).toContainEqual([...seen])
  },
)

test('ends the session of all calls with the token of the call that opened it', async () => {
  await using server = await startLegacyServer()
  const headers = ({ configurable }: ToolRequest): Record<string, string> => ({
    'x-token': String(configurable['token']),
  })
  const mcp = createMcpTools({ servers: { shop: { url: server.url, headers } } })
  const [tool] = await mcp.listTools({ config: { configurable: { token: 'token-of-ada' } } })
  await tool?.invoke({ text: 'x' }, { configurable: { token: 'token-of-ada' } })
  await mcp.close()
  const { headers: sent } = await server.waitFor(({ httpMethod }) => httpMethod === 'DELETE')
  expect(sent['x-token']).toBe('token-of-ada')
})

test('keeps one list per user, read with the headers of that user', async () => {
  await using server = await startLegacyServer()
  await using mcp = toolsOf(server.url, 'thread')
  for (const _ of [1, 2]) {
    await Promise.all(
      USERS.map((user) =>
        mcp.listTools({ config: { configurable: { user, token: `token-of-${user}` } } }),
      ),
    )
  }
  const lists = server.received.filter(({ rpcMethod }) => rpcMethod === 'tools/list')
  expect(lists.map(({ headers }) => String(headers['x-token'])).toSorted()).toEqual(
    USERS.map((user) => `token-of-${user}`),
  )
  await expect.poll(() => server.sessions).toEqual([])
})

test('sends the headers of each user to a stateless server', async () => {
  await using server = await startModernServer()
  await using mcp = toolsOf(server.url, 'thread')
  const ask = await agentOf(mcp)
  await Promise.all(
    USERS.map(async (user) => {
      await ask(`call echo {"text":"${user}"}`, { user, thread: user })
    }),
  )
  const calls = server.received.filter(({ rpcMethod }) => rpcMethod === 'tools/call')
  expect(calls).toHaveLength(USERS.length)
  for (const { headers, params } of calls) {
    const { text } = (params as { arguments: { text: string } }).arguments
    expect(headers).toMatchObject({ 'x-principal': text, 'x-token': `token-of-${text}` })
  }
})

test.each([
  ['an empty one', () => ''],
  ['none', () => undefined as unknown as string],
])(
  'refuses a principal whose name is %s, because all users would share its session',
  async (_what, principal) => {
    const { server, mcp } = await startShop({ principal })
    const [tool] = await mcp.listTools()
    await expect(tool?.invoke({})).rejects.toMatchObject({
      code: 'CONFIG',
      message: expect.stringContaining('`principal`'),
    })
    expect(server.count('tools/call')).toBe(0)
  },
)

describe.each([
  [
    'throws',
    ({ configurable }: RunnableConfig) => configurable?.['caller'].id,
    { cause: expect.any(TypeError), message: expect.stringContaining("reading 'id'") },
  ],
  ['returns no name', () => '', { message: expect.stringContaining('returned no name') }],
])('a function `principal` that %s is a mistake of the developer', (_what, principal, fault) => {
  const config = { configurable: {} }
  const mistake = { code: 'CONFIG', ...fault }

  test.each(['skip', () => {}] as const)(
    'a list fails, whatever onServerError says',
    async (onServerError) => {
      const { server, mcp } = await startShop({ principal, onServerError })
      for (const forceRefresh of [false, true]) {
        await expect(mcp.listTools({ config, forceRefresh })).rejects.toMatchObject(mistake)
      }
      expect(server.received).toEqual([])
      expect(mcp.status()).toMatchObject([{ state: 'untried' }]) // nothing is known about the server
    },
  )

  test.each([
    ['tools', mcpToolsMiddleware],
    ['skills', mcpSkillsMiddleware],
  ])('the run of an agent with %s ends', async (_of, middlewareOf) => {
    const { mcp } = await startShop({ principal })
    const agent = createAgent({ model: new ScriptedModel(), middleware: [middlewareOf(mcp)] })
    const messages = [{ role: 'user' as const, content: 'Hello' }]
    await expect(agent.invoke({ messages }, config)).rejects.toThrow('`principal`')
  })

  test('a call fails', async () => {
    const { mcp } = await startShop({ principal })
    const [tool] = await mcp.listTools()
    await expect(tool?.invoke({}, config)).rejects.toMatchObject({ code: 'CONFIG' })
  })

  test('a request of a handle fails, and says nothing about the server', async () => {
    const { mcp } = await startShop({ principal })
    await expect(mcp.server('shop').listTools({ config })).rejects.toMatchObject(mistake)
    expect(mcp.status()).toMatchObject([{ state: 'untried' }])
  })
})
