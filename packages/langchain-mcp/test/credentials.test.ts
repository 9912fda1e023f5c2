import { McpClient } from '@x/mcp-client'
import { bearer, createAuthProvider, deviceOAuth, memoryTokenStore } from '@x/mcp-transport/auth'
import {
  startLegacyServer,
  startModernServer,
  startTestServer,
  type LegacyServer,
  startGuardedServer,
} from '@x/mcp-testing'
import { array, assert, asyncProperty, constantFrom } from 'fast-check'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import {
  createMcpTools,
  createMcpToolsFromAgent,
  runInSessionScope,
  type CreateMcpToolsOptions,
  type McpToolsServerConfig,
  type ToolInterceptor,
} from '../src/index.ts'
import type { SessionMode } from '../src/graph/call-context.ts'

const PLACES = 4
const servers: LegacyServer[] = []

beforeAll(async () => {
  for (let n = 0; n < PLACES; n++) servers.push(await startLegacyServer())
})

afterAll(async () => {
  await Promise.all(servers.map((server) => server[Symbol.asyncDispose]()))
})

/** Returns all requests to a server as one text. */
function receivedBy(server: LegacyServer): string {
  return JSON.stringify(server.received.map(({ headers, params }) => [headers, params]))
}

type Kind = (typeof KINDS)[number]
const KINDS = [
  'none',
  'header',
  'header function',
  'bearer',
  'OAuth',
  'function for all',
  'interceptor',
] as const

const oauth = (store = memoryTokenStore()) =>
  createAuthProvider({
    redirectUrl: 'http://localhost/callback',
    redirect: () => undefined,
    store,
  })

/** A provider with a stored token. */
async function signedIn(token: string, origin: string) {
  const provider = oauth()
  await provider.saveTokens({ access_token: token, token_type: 'Bearer', server: origin })
  return provider
}

/** An entry of `servers` with one kind of credential. */
async function entryOf(url: string, kind: Kind, credential: string): Promise<McpToolsServerConfig> {
  switch (kind) {
    case 'header':
      return { url, headers: { 'x-key': credential } }
    case 'header function':
      return { url, headers: () => ({ authorization: `Bearer ${credential}` }) }
    case 'bearer':
      return { url, authProvider: bearer(credential) }
    case 'OAuth':
      return { url, authProvider: await signedIn(credential, new URL(url).origin) }
    case 'none':
    case 'function for all':
    case 'interceptor':
      return { url }
  }
}

test('never sends a credential to another origin, for any mix of credentials', async () => {
  let run = 0
  await assert(
    asyncProperty(
      array(constantFrom(...KINDS), { minLength: 2, maxLength: PLACES }),
      constantFrom<SessionMode>('shared', 'thread', 'run'),
      async (kinds, session) => {
        run += 1
        const credentials = kinds.map((_kind, n) => `credential-${run}-${n}-end`)
        const entries = await Promise.all(
          kinds.map(async (kind, n) => {
            const url = servers[n]?.url ?? ''
            return [`s${n}`, await entryOf(url, kind, credentials[n] ?? '')] as const
          }),
        )
        const indexOf = (name = ''): number => Number(name.slice(1))
        const interceptor: ToolInterceptor = ({ server }, next) => {
          const n = indexOf(server.name)
          return next(
            kinds[n] === 'interceptor' ? { headers: { 'x-own': credentials[n] ?? '' } } : {},
          )
        }
        await using mcp = createMcpTools({
          servers: Object.fromEntries(entries),
          session,
          prefixToolNames: true,
          interceptors: [interceptor],
          authProvider: ({ name }) =>
            kinds[indexOf(name)] === 'function for all'
              ? bearer(credentials[indexOf(name)] ?? '')
              : undefined,
          log: () => {},
        })
        await runInSessionScope(async () => {
          const tools = await mcp.listTools()
          const calls = tools.filter(({ origin }) => origin.toolName === 'counter_add')
          expect(calls).toHaveLength(kinds.length)
          const config = { configurable: { thread_id: `t${run}` } }
          await Promise.all([...calls, ...calls].map((tool) => tool.invoke({}, config)))
        })
        await mcp.close()
        for (const [n, credential] of credentials.entries()) {
          const holders = servers.flatMap((server, at) =>
            receivedBy(server).includes(credential) ? [at] : [],
          )
          expect(holders).toEqual(kinds[n] === 'none' ? [] : [n])
        }
      },
    ),
    { numRuns: 25, endOnFailure: true },
  )
})

describe('one provider for several servers', () => {
  const serversOf = (...urls: readonly string[]): CreateMcpToolsOptions['servers'] =>
    Object.fromEntries(urls.map((url, n) => [`s${n}`, { url }]))
  const [first, second] = ['https://a.example/mcp', 'https://b.example/mcp'] as const

  const make = (given: CreateMcpToolsOptions['servers']) => () =>
    createMcpTools({ servers: given, authProvider: bearer('token') })

  test.each<[string, CreateMcpToolsOptions['servers']]>([
    ['of two origins', serversOf(first, second)],
    ['one of which is named by slug', { a: { url: first }, b: { slug: 'b' } }],
  ])('is refused for %s', (_what, given) => {
    expect(make(given)).toThrow(
      expect.objectContaining({
        code: 'CONFIG',
        outcome: 'not-executed',
        message: expect.stringContaining('authProvider: one provider cannot be used'),
      }),
    )
  })

  test.each<[string, CreateMcpToolsOptions['servers']]>([
    ['of one origin', serversOf(first, 'https://a.example/other')],
    ['one of which is a program', { a: { url: first }, b: { command: 'node' } }],
    [
      'one of which has its own',
      { a: { url: first }, b: { url: second, authProvider: bearer('own') } },
    ],
  ])('is accepted for %s', (_what, given) => {
    expect(make(given)).not.toThrow()
  })

  test('is refused in two entries of different origins', () => {
    const authProvider = bearer('token')
    const given = { a: { url: first, authProvider }, b: { url: second, authProvider } }
    expect(() => createMcpTools({ servers: given })).toThrow(
      /^servers\.b: authProvider: this provider serves https:\/\/a\.example/,
    )
  })

  test.each(['shared', 'run'] as const)(
    'is refused when a function returns it for a second origin (session: %s)',
    async (session) => {
      const provider = bearer('shared-by-mistake')
      const [one, other] = servers.slice(0, 2).map(({ url }) => url)
      const before = servers.map(({ received }) => received.length)
      await using mcp = createMcpTools({
        servers: serversOf(one ?? '', other ?? ''),
        authProvider: () => provider,
        session,
        log: () => {},
      })
      await mcp.listTools()
      expect(
        mcp
          .status()
          .map(({ state }) => state)
          .toSorted(),
      ).toEqual(['down', 'up'])
      expect(mcp.status().find(({ state }) => state === 'down')?.error).toMatchObject({
        code: 'CONFIG',
      })
      const asked = servers.filter(({ received }, n) => received.length > (before[n] ?? 0))
      expect(asked).toHaveLength(1)
    },
  )

  test('is refused for an agent with several servers', async () => {
    const resources = ['a', 'b'].map((slug) => ({
      $resourceType: 'mcp' as const,
      slug,
      name: slug,
      availableTools: [],
    }))
    const made = createMcpToolsFromAgent({ resources }, { authProvider: bearer('token') })
    await expect(made).rejects.toMatchObject({ code: 'CONFIG' })
  })
})

test('sends tokens of a shared store only to their own server', async () => {
  const [one, other] = servers
  if (one === undefined || other === undefined) throw new Error('The servers were not started')
  const store = memoryTokenStore()
  const tokens = { access_token: 'token-of-the-first', token_type: 'Bearer' }
  await oauth(store).saveTokens({ ...tokens, server: new URL(one.url).origin })
  await using mcp = createMcpTools({
    servers: {
      one: { url: one.url, authProvider: oauth(store) },
      other: { url: other.url, authProvider: oauth(store) },
    },
    log: () => {},
  })
  await mcp.listTools()
  expect(receivedBy(one)).toContain('token-of-the-first')
  expect(receivedBy(other)).not.toContain('token-of-the-first')
})

test.each([307, 302])(
  'does not follow a redirect (%i) to another origin with credentials',
  async (status) => {
    const [target] = servers
    await using moved = await startTestServer((_request, response) => {
      response.writeHead(status, { location: target?.url }).end()
    })
    const { url } = moved
    const secret = `moved-${status}`
    await using mcp = createMcpTools({
      servers: { moved: { url, headers: { 'x-key': secret }, authProvider: bearer(secret) } },
      log: () => {},
    })
    await mcp.listTools()
    expect(mcp.status()).toMatchObject([{ state: 'down' }])
    expect(target && receivedBy(target)).not.toContain(secret)
  },
)

describe('a sign-in by code that takes too long', () => {
  const newProvider = (onCode: () => void = () => {}) =>
    deviceOAuth({ clientId: 'agent', store: memoryTokenStore(), onCode })
  const why = 'because nobody has signed in yet. Raise'

  test('is the reason why a server is down', async () => {
    await using server = await startGuardedServer(await startModernServer())
    await using mcp = createMcpTools({
      servers: { shop: { url: server.url, authProvider: newProvider(), handshakeMs: 3000 } },
      log: () => {},
    })
    expect(await mcp.listTools()).toEqual([])
    expect(mcp.status()[0]?.error).toMatchObject({
      code: 'TIMEOUT',
      message: expect.stringContaining(`${why} handshakeMs`),
    })
  })

  test('is the reason why a request has no answer', async () => {
    await using server = await startGuardedServer(await startModernServer())
    const authProvider = newProvider(() => server.enterCode('grant'))
    await using client = new McpClient(server.url, { authProvider })
    await client.listTools()
    server.revoke()
    const limits = { forceRefresh: true, timeoutMs: 2000 }
    for (const late of [client.listTools(limits), client.callTool('add', {}, limits)]) {
      await expect(late).rejects.toMatchObject({
        code: 'TIMEOUT',
        message: expect.stringContaining(`${why} timeoutMs`),
      })
    }
  })

  test.each([
    [{}, 60_000],
    [{ handshakeMs: 300_000 }, 330_000],
    [{ handshakeMs: 300_000, timeoutMs: 90_000 }, 90_000],
  ])('ends a list with the limits %j after %i ms', async (limits, timeoutMs) => {
    const list = vi.spyOn(McpClient.prototype, 'listTools')
    onTestFinished(() => list.mockRestore())
    const [{ url } = { url: '' }] = servers
    for (const options of [limits, {}]) {
      await using mcp = createMcpTools({ servers: { shop: { url, ...limits } }, ...options })
      await mcp.listTools()
      expect(list.mock.lastCall?.[0]).toMatchObject({ timeoutMs })
    }
  })
})
