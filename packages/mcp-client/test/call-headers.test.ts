import { inspect } from 'node:util'
import { deferred, startLegacyServer, startModernServer, startTaskServer } from '@x/mcp-testing'
import type { LegacyServer, ModernServer, TaskServer, TestTool } from '@x/mcp-testing'
import { expect, test, vi } from 'vitest'
import { McpClient, StaticServerDirectory } from '../src/index.ts'
import type {
  CallOptions,
  McpClientOptions,
  McpServerConfig,
  McpServerDirectory,
} from '../src/index.ts'
import { is, recordEvents, rejectionOf, startSetting } from './setting.ts'

const TENANT = 'x-tenant'
const tenant = (name: string): CallOptions => ({ headers: { [TENANT]: name } })

/** Every request that a server received, with its tenant. */
const tenantsAt = (server: Pick<LegacyServer | ModernServer | TaskServer, 'received'>): string[] =>
  server.received.map(({ httpMethod, rpcMethod = httpMethod, headers }) => {
    const of = headers[TENANT]
    return of === undefined ? rpcMethod : `${rpcMethod} of ${String(of)}`
  })

const QUESTION = {
  mode: 'form',
  message: 'Sure?',
  requestedSchema: { type: 'object', properties: {} },
}
const confirm: TestTool = {
  name: 'confirm',
  run: (_args, { inputResponses }) =>
    inputResponses === undefined
      ? {
          resultType: 'input_required',
          inputRequests: { sure: { method: 'elicitation/create', params: QUESTION } },
        }
      : 'done',
}
const answering: McpClientOptions = {
  handlers: { elicitation: () => ({ action: 'accept', content: {} }) },
  listen: false,
}

test('headers of a call reach its own requests and no handshake, in a session', async () => {
  await using server = await startLegacyServer({ tools: [confirm] })
  await using client = new McpClient({ url: server.url }, { ...answering, era: 'legacy' })
  await Promise.all(['ada', 'bob'].map((name) => client.callTool('confirm', {}, tenant(name))))
  await client.callTool('confirm')
  await client.readResource('a://b', tenant('eve')).catch(() => {})
  await client.listTools()
  const sent = tenantsAt(server)
  expect(sent.filter((one) => one.includes('ada'))).toEqual(['tools/call of ada', 'POST of ada'])
  expect(sent.filter((one) => one.includes('bob'))).toEqual(['tools/call of bob', 'POST of bob'])
  expect(sent.filter((one) => !/ada|bob/.test(one))).toEqual([
    'initialize',
    'notifications/initialized',
    'tools/call',
    'POST',
    'resources/read of eve',
    'tools/list',
  ])
})

test('headers of a call reach each of its rounds, without sessions', async () => {
  await using server = await startModernServer()
  await using client = new McpClient({ url: server.url }, { ...answering, era: 'modern' })
  await client.callTool('ask_twice', {}, tenant('ada'))
  await client.ping(tenant('bob'))
  await client.listTools()
  expect(tenantsAt(server)).toEqual([
    'server/discover',
    'tools/call of ada',
    'tools/call of ada',
    'tools/call of ada',
    'server/discover of bob',
    'tools/list',
  ])
})

test('headers of a call reach its resumed stream and its cancellation', async () => {
  await using server = await startLegacyServer({ answerAs: 'sse' })
  await using client = new McpClient({ url: server.url }, { listen: false })
  const abort = new AbortController()
  const call = client.callTool('slow', {}, { ...tenant('ada'), signal: abort.signal })
  const failing = rejectionOf(call)
  await server.waitFor(is.tool('slow'))
  await client.ping() // by now the client has the id of the first event of the call
  server.dropAnswerStreams()
  await server.waitFor(({ httpMethod }) => httpMethod === 'GET')
  abort.abort(new Error('No longer needed'))
  await failing
  await server.waitFor(is.method('notifications/cancelled'))
  const sent = tenantsAt(server)
  expect(sent.filter((one) => one.includes('ada'))).toEqual([
    'tools/call of ada',
    'GET of ada',
    'notifications/cancelled of ada',
  ])
  expect(sent).toContain('ping')
})

test('a call that is sent again after a lost session keeps its headers, and the new handshake has none', async () => {
  await using setting = await startSetting()
  const { client, server } = setting
  await client.callTool('counter_add', {}, tenant('ada'))
  server.forgetSessions()
  await client.callTool('counter_add', {}, tenant('bob'))
  const sent = tenantsAt(server).filter((one) => !one.startsWith('GET'))
  expect(sent.slice(-4)).toEqual([
    'tools/call of bob',
    'initialize',
    'notifications/initialized',
    'tools/call of bob',
  ])
})

test('a task keeps the headers of its call, and an operation on it may name others', async () => {
  await using server = await startTaskServer()
  await using client = new McpClient({ url: server.url }, answering)
  const { task } = await client.startTool('slow_compute', { seconds: 60 }, tenant('ada'))
  await task?.status()
  await task?.status(tenant('bob'))
  const reference = task?.reference
  if (reference === undefined) throw new Error('The call has become no task')
  expect(JSON.stringify(reference)).not.toContain('ada')
  await client.resumeTask(reference).cancel(tenant('eve'))
  await client.callTool('slow_compute', { seconds: 0.02 }, tenant('zoe'))
  await client.callTool('confirm_delete', { filename: 'a' }, tenant('kim'))
  const sent = tenantsAt(server).filter((one) => /tasks|call/.test(one))
  expect(sent.slice(0, 4)).toEqual([
    'tools/call of ada',
    'tasks/get of ada',
    'tasks/get of bob',
    'tasks/cancel of eve',
  ])
  expect(new Set(sent.slice(4))).toEqual(
    new Set([
      'tools/call of zoe',
      'tasks/get of zoe',
      'tools/call of kim',
      'tasks/get of kim',
      'tasks/update of kim',
    ]),
  )
})

test.each(['legacy', 'modern'] as const)(
  'headers of a call replace those of the config, and none of the protocol: %s',
  async (era) => {
    await using server = era === 'legacy' ? await startLegacyServer() : await startModernServer()
    const headers = { 'X-Tenant': 'config', 'x-app': 'one' }
    await using client = new McpClient({ url: server.url, headers }, { era, listen: false })
    const own = {
      'X-TENANT': 'ada',
      'Mcp-Session-Id': 'stolen',
      'MCP-Protocol-Version': '1999-01-01',
      'Content-Type': 'text/plain',
      Accept: 'text/html',
      Host: 'elsewhere.example',
    }
    await client.callTool('echo', { text: 'x' })
    await client.callTool('echo', { text: 'x' }, { headers: own })
    const [before, received] = server.received.filter(({ toolName }) => toolName === 'echo')
    expect(before?.headers).toMatchObject({ [TENANT]: 'config', 'x-app': 'one' })
    expect({ ...received?.headers, 'content-length': undefined }).toEqual({
      ...before?.headers,
      'content-length': undefined,
      [TENANT]: 'ada',
    })
  },
)

test('a token of an authProvider is not replaced by a header of a call', async () => {
  await using server = await startLegacyServer()
  const authProvider = { token: () => 'of-the-provider' }
  await using client = new McpClient({ url: server.url }, { authProvider, listen: false })
  const headers = { Authorization: 'Bearer of-the-call', [TENANT]: 'ada' }
  await client.callTool('echo', { text: 'x' }, { headers })
  const call = server.received.find(({ toolName }) => toolName === 'echo')
  expect(call?.headers).toMatchObject({ authorization: 'Bearer of-the-provider', [TENANT]: 'ada' })
})

test('headers that cannot be sent are refused with CONFIG, and no request is sent', async () => {
  await using server = await startLegacyServer()
  await using client = new McpClient({ url: server.url }, { listen: false })
  const secret = 'line one\r\nline two of a secret'
  const invalid: readonly unknown[] = [
    { 'x-user': secret },
    { 'not a name': 'x' },
    { 'x-user': 7 },
    new Headers({ 'x-user': 'ada' }),
    [['x-user', 'ada']],
    () => ({ 'x-user': 'ada' }),
    'x-user: ada',
  ]
  for (const headers of invalid) {
    const options = { headers } as CallOptions
    const error = await rejectionOf(client.callTool('echo', { text: 'x' }, options))
    expect(error).toMatchObject({ code: 'CONFIG', outcome: 'not-executed' })
    expect(inspect(error, { depth: 10 })).not.toContain('of a secret')
  }
  expect(server.count('tools/call')).toBe(0)
  await client.callTool('echo', { text: 'x' }, { headers: {} })
})

test('headers of a call appear in no event and no error', async () => {
  await using setting = await startSetting()
  const { client, proxy } = setting
  const observed = recordEvents(client)
  const headers = { authorization: 'Bearer secret-of-ada', [TENANT]: 'secret-tenant' }
  proxy.inject({
    match: is.tool('echo'),
    action: { status: 403, body: 'No access for Bearer secret-of-ada at secret-tenant' },
  })
  const error = await rejectionOf(client.callTool('echo', { text: 'x' }, { headers }))
  proxy.inject({ match: is.tool('cart_add'), action: 'reset-after' })
  const broken = await rejectionOf(client.callTool('cart_add', { item: 'x' }, { headers }))
  const everything = inspect(
    { observed, error, broken, status: client.status() },
    { depth: 20, maxStringLength: null },
  )
  expect(everything).toContain('No access for [removed] at [removed]')
  expect(everything).not.toContain('secret-of-ada')
  expect(everything).not.toContain('secret-tenant')
})

test.each<readonly [string, McpServerConfig]>([
  ['of its config', { command: 'no-such-program' }],
  ['of a directory', { slug: 'shop' }],
])('a child process %s refuses headers of a call before it is started', async (_whose, config) => {
  const directory = new StaticServerDirectory({ shop: { command: 'no-such-program' } })
  await using client = new McpClient(config, { directory })
  const error = await rejectionOf(client.callTool('echo', {}, tenant('ada')))
  expect(error).toMatchObject({ code: 'CONFIG', outcome: 'not-executed' })
  expect(client.status().state).toBe('created')
})

test('a call with headers looks its server up once', async () => {
  await using server = await startLegacyServer()
  const retrieve = vi.fn<McpServerDirectory['retrieve']>(async () => ({ mcpUrl: server.url }))
  await using client = new McpClient({ slug: 'shop' }, { directory: { retrieve } })
  await client.callTool('counter_add', {}, tenant('ada'))
  await client.callTool('counter_add', {}, tenant('bob'))
  expect(retrieve).toHaveBeenCalledOnce()
})

test('a directory that makes a call with headers of its own client is refused', async () => {
  const directory = {
    retrieve: async () => {
      await client.callTool('find', {}, tenant('ada'))
      return {}
    },
  }
  await using client = new McpClient({ slug: 'shop' }, { directory })
  const error = await rejectionOf(client.callTool('echo', {}, tenant('ada')))
  expect(error).toMatchObject({ code: 'REENTRANT', outcome: 'not-executed' })
})

test('first calls with headers ask the directory once, together', async () => {
  await using server = await startLegacyServer()
  const directory = new StaticServerDirectory({ shop: server.url })
  const retrieve = vi.spyOn(directory, 'retrieve')
  await using client = new McpClient({ slug: 'shop' }, { directory })
  const names = Array.from({ length: 50 }, (_, index) => `tenant ${index}`)
  await Promise.all(names.map((name) => client.callTool('echo', { text: name }, tenant(name))))
  expect(retrieve).toHaveBeenCalledTimes(1)
})

test('dispose() ends a first call with headers while the directory is silent', async () => {
  const asked = deferred()
  const directory: McpServerDirectory = {
    retrieve: () => {
      asked.resolve()
      return new Promise(() => {})
    },
  }
  const client = new McpClient({ slug: 'shop' }, { directory })
  const call = rejectionOf(client.callTool('echo', { text: 'a' }, tenant('ada')))
  await asked.promise
  await client.dispose()
  expect(await call).toMatchObject({ code: 'CLOSED' })
})
