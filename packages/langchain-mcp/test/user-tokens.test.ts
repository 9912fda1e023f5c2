import { request as requestOf } from 'node:http'
import { inspect } from 'node:util'
import type { RunnableConfig } from '@langchain/core/runnables'
import { Command, MemorySaver } from '@langchain/langgraph'
import {
  deferred,
  startLegacyServer,
  startSkillServer,
  startTaskServer,
  startTestServer,
  type LegacyServer,
} from '@x/mcp-testing'
import { createAgent } from 'langchain'
import { describe, expect, onTestFinished, test } from 'vitest'
import {
  createMcpTools,
  userTokens,
  type CreateMcpToolsOptions,
  type McpTools,
  type ToolLogEntry,
  type UserCredentials,
} from '../src/index.ts'
import { causesOf } from '../src/graph/authorization-to-interrupt.ts'
import { mcpToolsMiddleware } from '../src/middleware.ts'
import { mcpSkillsMiddleware } from '../src/skills.ts'
import { ScriptedModel } from './scripted-model.ts'

/** Credentials of a user. The tokens have numbers, and the next one comes after a refusal. */
function credentialsOf(user: string): UserCredentials & { readonly refused: string[] } {
  const refused: string[] = []
  return {
    refused,
    token: async ({ server, resource }) => {
      const { pathname } = new URL(resource)
      return { accessToken: `${user}-for-${server}${pathname}-${refused.length}` }
    },
    rejected: ({ accessToken }) => void refused.push(accessToken),
  }
}

const configOf = (user: string, credentials: unknown = credentialsOf(user)) => ({
  configurable: { user },
  context: { credentials },
})

const EXPIRED = new Error('Sign in again')

interface World {
  readonly mcp: McpTools
  /** Users in the tokens of all requests that have a body. */
  readonly seen: (string | undefined)[]
  /** The same of listening streams. */
  readonly streams: (string | undefined)[]
  readonly inner: LegacyServer
  /** Refuses requests with this token. */
  refuses: (token: string | undefined) => boolean
}

/** A server that may refuse tokens, behind tools that act for users. */
async function startWorld({
  onServerError = 'throw',
  log = () => {},
  listen = false,
  session,
}: Pick<
  CreateMcpToolsOptions,
  'listen' | 'log' | 'onServerError' | 'session'
> = {}): Promise<World> {
  const inner = await startLegacyServer()
  const seen: World['seen'] = []
  const streams: World['streams'] = []
  const world: Pick<World, 'refuses'> = { refuses: () => false }
  const guard = await startTestServer((request, response) => {
    const { authorization } = request.headers
    if (request.method === 'POST') seen.push(authorization)
    if (request.method === 'GET') streams.push(authorization)
    if (world.refuses(authorization)) return void response.writeHead(401).end()
    const { headers, method } = request
    const forwarded = requestOf(inner.url, { method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers).flushHeaders()
      answer.on('error', () => response.destroy()).pipe(response)
    })
    request.pipe(forwarded)
  })
  const mcp = createMcpTools({
    servers: { orders: { url: guard.url, era: 'legacy' } },
    authProvider: userTokens(),
    principal: ({ configurable }) => configurable?.['user'],
    onServerError,
    session,
    listen,
    reconnect: { firstMs: 100 },
    log,
  })
  onTestFinished(async () => {
    await mcp.close()
    await guard[Symbol.asyncDispose]()
    await inner[Symbol.asyncDispose]()
  })
  return Object.assign(world, { mcp, seen, streams, inner })
}

test('an agent calls with the tokens of the user of its run', async () => {
  const { mcp, seen } = await startWorld()
  const tools = await mcp.listTools({ config: configOf('ada') })
  const agent = createAgent({ model: new ScriptedModel(), tools })
  const messages = [{ role: 'user' as const, content: 'call counter_add {"by":2}' }]
  const from = seen.length
  const [ada, bob] = await Promise.all([
    agent.invoke({ messages }, configOf('ada')),
    agent.invoke({ messages }, configOf('bob')),
  ])
  expect(ada.messages.at(-1)?.text).toContain('2')
  expect(bob.messages.at(-1)?.text).toContain('2') // a session of his own
  const users = new Set(seen.slice(from))
  expect(users).toEqual(new Set(['Bearer ada-for-orders/mcp-0', 'Bearer bob-for-orders/mcp-0']))
})

test('the middleware lists and calls with the user of its run', async () => {
  const { mcp, seen } = await startWorld()
  const agent = createAgent({ model: new ScriptedModel(), middleware: [mcpToolsMiddleware(mcp)] })
  const messages = [{ role: 'user' as const, content: 'call counter_add {"by":2}' }]
  const ada = await agent.invoke({ messages }, configOf('ada'))
  expect(ada.messages.at(-1)?.text).toContain('2')
  expect(new Set(seen)).toEqual(new Set(['Bearer ada-for-orders/mcp-0']))
})

test('gets one other token after a refusal, and fails if that is refused too', async () => {
  const world = await startWorld()
  const ada = credentialsOf('ada')
  const [tool] = await world.mcp.listTools({ config: configOf('ada', ada) })
  world.refuses = (token) => token?.endsWith('-0') === true
  await expect(tool?.invoke({ text: 'hi' }, configOf('ada', ada))).resolves.toBeDefined()
  expect(ada.refused).toEqual(['ada-for-orders/mcp-0'])
  world.refuses = () => true
  const failed = tool?.invoke({ text: 'hi' }, configOf('ada', ada))
  await expect(failed).resolves.toContain('refused the credentials')
  expect(ada.refused).toEqual(['ada-for-orders/mcp-0', 'ada-for-orders/mcp-1'])
})

test('takes the credentials of each call, not those that opened the session', async () => {
  const { mcp, seen } = await startWorld()
  const [tool] = await mcp.listTools({ config: configOf('ada') })
  const later: UserCredentials = {
    ...credentialsOf('ada'),
    token: async () => ({ accessToken: 'later' }),
  }
  await tool?.invoke({ text: 'hi' }, configOf('ada', later))
  expect(seen.at(-1)).toBe('Bearer later')
})

test('a broken listening stream is opened again with the credentials of the last call of its user', async () => {
  const { mcp, streams, inner } = await startWorld({ listen: true })
  let isExpired = false
  const first: UserCredentials = {
    ...credentialsOf('ada'),
    token: () => (isExpired ? Promise.reject(EXPIRED) : Promise.resolve({ accessToken: 'first' })),
  }
  const [tool] = await mcp.listTools({ config: configOf('ada', first) })
  await expect.poll(() => streams).toEqual(['Bearer first'])
  isExpired = true
  const later = { ...credentialsOf('ada'), token: async () => ({ accessToken: 'later' }) }
  await tool?.invoke({ text: 'hi' }, configOf('bob'))
  await tool?.invoke({ text: 'hi' }, configOf('ada', later))
  expect(inner.dropListenStreams()).toBeGreaterThan(0)
  await expect.poll(() => streams).toContain('Bearer later')
})

test.each([
  ['has ended', async () => Promise.reject(EXPIRED)],
  ['is still valid', async () => ({ accessToken: 'first' })],
])(
  'continues a task with the credentials of the resume, if the earlier sign-in %s',
  async (_state, token) => {
    await using server = await startTaskServer()
    await using mcp = createMcpTools({
      servers: { jobs: server.url },
      authProvider: userTokens(),
      principal: ({ configurable }) => configurable?.['user'],
      taskMode: 'interrupt',
    })
    const credentials = { ...credentialsOf('ada'), token: async () => ({ accessToken: 'first' }) }
    const first = configOf('ada', credentials)
    const tools = await mcp.listTools({ config: first })
    const agent = createAgent({
      model: new ScriptedModel(),
      tools,
      checkpointer: new MemorySaver(),
    })
    const turn = (input: Parameters<typeof agent.invoke>[0] | Command, config: typeof first) =>
      agent.invoke(input as Parameters<typeof agent.invoke>[0], {
        ...config,
        configurable: { ...config.configurable, thread_id: 't1' },
      })
    await turn({ messages: [{ role: 'user', content: 'call slow_compute {}' }] }, first)
    credentials.token = token
    // This server gives a task only to one token.
    server.tasks.set(server.lastTask.taskId, { ...server.lastTask, principal: 'Bearer later' })
    server.complete('computed once')
    const later = { ...credentialsOf('ada'), token: async () => ({ accessToken: 'later' }) }
    const { messages } = await turn(new Command({ resume: {} }), configOf('ada', later))
    expect(messages.at(-1)?.text).toBe('computed once')
    const polls = server.received.filter(({ rpcMethod }) => rpcMethod === 'tasks/get')
    const tokens = polls.map(({ headers }) => headers['authorization'])
    expect(new Set(tokens)).toEqual(new Set(['Bearer later']))
  },
)

test('sends nothing for a run without credentials, such as a resume that forgot them', async () => {
  const { mcp, seen } = await startWorld()
  const [tool] = await mcp.listTools({ config: configOf('ada') })
  const from = seen.length
  const call = tool?.invoke({ text: 'hi' }, { configurable: { user: 'ada' } })
  await expect(call).rejects.toMatchObject({
    code: 'UNAUTHORIZED',
    message: expect.stringContaining('No token of the user for "orders"'),
  })
  expect(seen.slice(from)).toEqual([])
})

test('a call without a token ends the run, names the audience, and has the error of the credentials', async () => {
  const { mcp, seen } = await startWorld()
  const tools = await mcp.listTools({ config: configOf('ada') })
  const from = seen.length
  const agent = createAgent({ model: new ScriptedModel(), tools })
  const expired = { ...credentialsOf('ada'), token: () => Promise.reject(EXPIRED) }
  const messages = [{ role: 'user' as const, content: 'call counter_add {"by":2}' }]
  const failed: unknown = await agent
    .invoke({ messages }, configOf('ada', expired))
    .catch((error: unknown) => error)
  expect(failed).toMatchObject({
    name: 'McpToolError',
    code: 'UNAUTHORIZED',
    outcome: 'not-executed',
  })
  expect(String(failed)).toMatch(
    /for "orders" \(http:\S+\/mcp\), so nothing was sent: Sign in again/,
  )
  expect(causesOf(failed)).toContain(EXPIRED)
  expect(seen.slice(from)).toEqual([])
})

describe.each([
  ['a text', 'secret-text'],
  ['nothing', undefined],
  ['an object with another name', { token: 'secret-text' }],
  ['an empty token', { accessToken: '' }],
  ['a token that is no text', { accessToken: 7 }],
])('if token() returns %s', (_what, answer) => {
  const wrong = configOf('ada', { ...credentialsOf('ada'), token: async () => answer })
  const text = 'token() returns a promise of { accessToken }'

  test('a list fails and sends nothing, whatever onServerError says', async () => {
    const { mcp, seen } = await startWorld({ onServerError: 'skip' })
    const failed: unknown = await mcp.listTools({ config: wrong }).catch((error) => error)
    expect(failed).toBeInstanceOf(Error)
    expect(inspect(failed, { depth: 9 })).toContain(text)
    expect(inspect(failed, { depth: 9 })).not.toContain('secret-text')
    expect(seen).toEqual([])
    expect(mcp.status()).toMatchObject([{ state: 'untried' }])
  })

  test('a call fails and sends nothing', async () => {
    const { mcp, seen } = await startWorld()
    const [tool] = await mcp.listTools({ config: configOf('ada') })
    const from = seen.length
    const failed: unknown = await tool?.invoke({ text: 'hi' }, wrong).catch((error) => error)
    expect(failed).toBeInstanceOf(Error)
    expect(inspect(failed, { depth: 9 })).toContain(text)
    expect(seen.slice(from)).toEqual([])
  })
})

describe.each([
  [
    'expired credentials',
    { ...credentialsOf('ada'), token: () => Promise.reject(EXPIRED) },
    EXPIRED.message,
  ],
  [
    'credentials that reject with a text',
    { ...credentialsOf('ada'), token: () => Promise.reject('no sign-in') },
    'no sign-in',
  ],
  ['no credentials', undefined, 'has no credentials of a user'],
])('a list for a user with %s', (_what, credentials, reason) => {
  const config = { configurable: { user: 'ada' }, context: { credentials } }
  const messages = [{ role: 'user' as const, content: 'call counter_add {"by":2}' }]

  test.each(['skip', () => {}] as const)(
    'fails, whatever onServerError says',
    async (onServerError) => {
      const { mcp } = await startWorld({ onServerError })
      const agent = createAgent({
        model: new ScriptedModel(),
        middleware: [mcpToolsMiddleware(mcp)],
      })
      const failed: unknown = await agent.invoke({ messages }, config).catch((error) => error)
      expect(failed).toBeInstanceOf(Error)
      expect(inspect(failed, { depth: 9 })).toContain(reason)
      expect(mcp.status()).toMatchObject([{ state: 'untried' }])
      // A new sign-in, and another user, are not held back by it.
      for (const user of ['ada', 'bob']) {
        const answer = await agent.invoke({ messages }, configOf(user))
        expect(answer.messages.at(-1)?.text).toContain('2')
      }
    },
  )
})

test('a user whose token the server refuses gets the tools with the next sign-in, and others keep theirs', async () => {
  const log: ToolLogEntry[] = []
  const world = await startWorld({ onServerError: 'skip', log: (entry) => void log.push(entry) })
  const middleware = [mcpToolsMiddleware(world.mcp)]
  const agent = createAgent({ model: new ScriptedModel(), middleware })
  const messages = [{ role: 'user' as const, content: 'call counter_add {"by":2}' }]
  const answerTo = async (user: string) => {
    const answer = await agent.invoke({ messages }, configOf(user))
    return answer.messages.at(-1)?.text
  }
  world.refuses = (token) => token?.startsWith('Bearer ada') === true
  expect(await answerTo('ada')).not.toContain('2')
  expect(await answerTo('bob')).toContain('2')
  expect(await answerTo('ada')).not.toContain('2')
  expect(log.map(({ code }) => code)).toEqual(['SERVER_DOWN']) // once, however often it is asked
  world.refuses = () => false
  expect(await answerTo('ada')).toContain('2')
})

describe.each(['shared', 'thread'] as const)(
  "in parallel runs of a user, with session: '%s'",
  (session) => {
    test.each([
      ['list', async (mcp: McpTools, config) => mcp.listTools({ config })],
      ['request', async (mcp: McpTools, config) => mcp.server('orders').listResources({ config })],
      [
        'call',
        async (mcp: McpTools, config) =>
          mcp.server('orders').callTool('counter_add', {}, { config }),
      ],
    ] as readonly [string, (mcp: McpTools, config: RunnableConfig) => Promise<unknown>][])(
      'a %s has a token, although those that began the handshakes have none',
      async (_what, send) => {
        const { mcp, inner } = await startWorld({ session })
        const [asked, answered] = [deferred(), deferred()]
        let requests = 0
        const expired = (): UserCredentials => ({
          ...credentialsOf('ada'),
          async token() {
            requests++
            asked.resolve()
            await answered.promise
            throw EXPIRED
          },
        })
        const [one, other] = [expired(), expired()]
        const failed = [send(mcp, configOf('ada', one))]
        await asked.promise
        for (const credentials of [one, other, other]) {
          failed.push(send(mcp, configOf('ada', credentials)))
        }
        const sent = send(mcp, configOf('ada'))
        answered.resolve()
        for (const call of failed) await expect(call).rejects.toThrow(EXPIRED.message)
        await expect(sent).resolves.toBeDefined()
        expect(requests).toBe(2) // once for each credentials
        expect(inner.executions('counter_add')).toBeLessThan(2)
      },
    )
  },
)

test('skills for a user with expired credentials fail, and are there after a new sign-in', async () => {
  await using server = await startSkillServer({
    refund: { 'SKILL.md': '---\nname: refund\ndescription: Does refund\n---\nAsk.\n' },
  })
  await using mcp = createMcpTools({
    servers: { orders: server.url },
    authProvider: userTokens(),
    principal: ({ configurable }) => configurable?.['user'],
  })
  let prompt = ''
  const model = new ScriptedModel((messages) => {
    prompt = messages.map(({ text }) => text).join()
  })
  const agent = createAgent({ model, middleware: [mcpSkillsMiddleware(mcp)] })
  const messages = [{ role: 'user' as const, content: 'Hello' }]
  const expired = { ...credentialsOf('ada'), token: () => Promise.reject(EXPIRED) }
  const failed: unknown = await agent
    .invoke({ messages }, configOf('ada', expired))
    .catch((error) => error)
  expect(failed).toBeInstanceOf(Error)
  expect(inspect(failed, { depth: 9 })).toContain(EXPIRED.message)
  await agent.invoke({ messages }, configOf('ada'))
  expect(prompt).toContain('Does refund')
})

test('a list without a config fails, whatever onServerError says, and asks for the config', async () => {
  const { mcp, seen } = await startWorld({ onServerError: 'skip' })
  await expect(mcp.listTools()).rejects.toMatchObject({
    code: 'CONFIG',
    message: expect.stringContaining('this list has no principal: pass the config of the run'),
  })
  expect(seen).toEqual([])
  expect(mcp.status()).toMatchObject([{ state: 'untried' }])
  await expect(mcp.listTools({ config: configOf('ada') })).resolves.not.toEqual([])
})

test.each(['skip', 'throw'] as const)(
  'refuses to share a session between users, if onServerError is %s',
  async (onServerError) => {
    await using mcp = createMcpTools({
      servers: { orders: 'http://127.0.0.1:9/mcp' },
      authProvider: userTokens(),
      onServerError,
    })
    for (const options of [{ config: configOf('ada') }, {}]) {
      const list = mcp.listTools(options)
      await expect(list).rejects.toThrow('Give createMcpTools() the option `principal`')
    }
  },
)

test.each(['of the tools', 'of the server'])(
  'names a server as the user does, and never by its whole URL: a provider %s',
  async (place) => {
    await using server = await startLegacyServer()
    const url = `${server.url}?key=secret`
    const isOwn = place === 'of the server'
    const asked: string[] = []
    const credentials: UserCredentials = {
      token: async (target) => {
        asked.push(target.server)
        return { accessToken: 'token' }
      },
      rejected() {},
    }
    await using mcp = createMcpTools({
      servers: { orders: { url, ...(isOwn && { authProvider: userTokens() }) } },
      ...(!isOwn && { authProvider: userTokens() }),
      principal: ({ configurable }) => configurable?.['user'],
    })
    const error = await mcp.listTools().catch((problem: unknown) => problem)
    expect(String(error)).toContain('userTokens() of "orders"')
    expect(inspect(error, { depth: 9 })).not.toContain('secret')
    await mcp.listTools({ config: configOf('ada', credentials) })
    expect(new Set(asked)).toEqual(new Set(['orders']))
  },
)
