import { deferred, discoverResult, startScriptedServer } from '@x/mcp-testing'
import type { CannedAnswer } from '@x/mcp-testing'
import { SessionInfo } from '@x/mcp-transport'
import { expect, onTestFinished, test, vi } from 'vitest'
import { McpClient } from '../src/index.ts'
import type { SessionInfoSource, SessionScope } from '../src/index.ts'
import { DurableFactory } from './session-stores.ts'
import {
  answerWith,
  is,
  recordEvents,
  rejectionOf,
  startSetting,
  stopClock,
  warningsOf,
} from './setting.ts'

const all = ['counter_add', 'cart_add', 'echo', 'fail', 'slow', 'whoami']

async function namesOf(client: McpClient, options = {}): Promise<string[]> {
  return (await client.listTools(options)).map(({ name }) => name)
}

test('opens the session and reads all pages at the first call; later calls send no request', async () => {
  await using setting = await startSetting({ server: { pageSize: 2 } })
  const { client, server } = setting
  expect(await namesOf(client)).toEqual(all)
  expect(server.count('tools/list')).toBe(3)
  expect(await namesOf(client)).toEqual(all)
  expect(server.count('tools/list')).toBe(3)
  expect(server.count('initialize')).toBe(1)
})

test('gives the list to the other callers when one aborts', async () => {
  await using setting = await startSetting()
  const { client, proxy } = setting
  const caller = new AbortController()
  const leaving = client.listTools({ signal: caller.signal })
  const staying = namesOf(client)
  await proxy.waitFor(is.initialize)
  caller.abort(new Error('enough'))
  await expect(leaving).rejects.toThrow('enough')
  expect(await staying).toEqual(all)
})

test('obeys the time limit', async () => {
  await using setting = await startSetting()
  const { client, proxy } = setting
  stopClock()
  const isList = is.method('tools/list')
  proxy.inject({ match: isList, times: 1, action: 'hang' })
  const error = rejectionOf(client.listTools({ timeoutMs: 40 }))
  await proxy.waitFor(isList)
  vi.advanceTimersByTime(40)
  expect(await error).toMatchObject({ code: 'TIMEOUT' })
  expect(await namesOf(client)).toEqual(all)
})

test('obeys the time limit while it looks for a stored list', async () => {
  const asked = deferred()
  const retrieve = async (): Promise<never> => {
    asked.resolve()
    return new Promise(() => {})
  }
  const options = { directory: { retrieve, list: async () => [] } }
  await using client = new McpClient(
    { slug: 'shop' },
    { ...options, sessionInfoFactory: new DurableFactory() },
  )
  stopClock()
  const error = rejectionOf(client.listTools({ acceptStored: true, timeoutMs: 40 }))
  await asked.promise
  vi.advanceTimersByTime(40)
  expect(await error).toMatchObject({ code: 'TIMEOUT', outcome: 'not-executed' })
})

test('obeys the time limit while the list is stored', async () => {
  const asked = deferred()
  const createSession: SessionInfoSource['createSession'] = (_server, _scope, purpose) => {
    if (purpose !== 'tools') return new SessionInfo()
    asked.resolve()
    return new Promise(() => {})
  }
  await using setting = await startSetting({ client: { sessionInfoFactory: { createSession } } })
  await setting.client.ping()
  stopClock()
  const listed = namesOf(setting.client, { timeoutMs: 40 })
  await asked.promise
  vi.advanceTimersByTime(40)
  expect(await listed).toEqual(all)
})

test('requests the list again in a new session, and reports what changed', async () => {
  await using setting = await startSetting()
  const { client, server, proxy, observed } = setting
  proxy.inject({ match: is.method('tools/list'), times: 1, action: listOf('echo', 'old') })
  expect(await namesOf(client)).toEqual(['echo', 'old'])
  server.forgetSessions()
  await client.ping()
  expect(await namesOf(client)).toEqual(all)
  expect(
    observed.flatMap(({ event, payload }) => (event === 'toolsChanged' ? [payload] : [])),
  ).toEqual([
    {
      added: all.filter((name) => name !== 'echo'),
      removed: ['old'],
      changed: ['echo'],
    },
  ])
})

test('keeps the old list when a request fails', async () => {
  await using setting = await startSetting()
  const { client, proxy, server } = setting
  await client.listTools()
  proxy.inject({
    match: is.method('tools/list'),
    times: 1,
    action: { status: 500, body: 'on fire' },
  })
  expect(await rejectionOf(client.listTools({ forceRefresh: true }))).toMatchObject({
    code: 'REJECTED',
  })
  expect(await namesOf(client)).toEqual(all)
  expect(server.count('tools/list')).toBe(1)
})

test('counts a failed request once for all callers that share it: the session is not tested', async () => {
  await using setting = await startSetting()
  const { client, proxy } = setting
  await client.callTool('echo', { text: 'x' })
  proxy.inject({ match: is.method('tools/list'), times: 1, action: { status: 500, body: 'no' } })
  const callers = Array.from({ length: 5 }, () => rejectionOf(client.listTools()))
  for (const error of await Promise.all(callers)) expect(error).toMatchObject({ code: 'REJECTED' })
  expect(proxy.count({ rpcMethod: 'tools/list' })).toBe(1)
  await client.callTool('echo', { text: 'y' })
  expect(proxy.count({ rpcMethod: 'ping' })).toBe(0)
})

test('leaves out a tool with an invalid definition, and logs it', async () => {
  await using setting = await startSetting()
  const { client, proxy, observed } = setting
  const tools = [{ name: 'bad' }, { name: 'good', inputSchema: { type: 'object' } }]
  proxy.inject({ match: is.method('tools/list'), action: answerWith({ result: { tools } }) })
  expect(await namesOf(client)).toEqual(['good'])
  expect(warningsOf(observed)).toEqual([expect.stringContaining('"bad" is left out: inputSchema')])
  const leftOut = [{ name: 'bad', reason: expect.stringContaining('inputSchema') }]
  expect(client.status().leftOutTools).toEqual(leftOut)
  const reported: unknown[] = []
  await client.listTools({ onLeftOut: (tool) => reported.push(tool) })
  expect(reported).toEqual(leftOut)
  await client.listTools()
  expect(warningsOf(observed)).toHaveLength(1)
})

test('rejects with UNEXPECTED_RESPONSE for a result without a list', async () => {
  await using setting = await startSetting()
  setting.proxy.inject({
    match: is.method('tools/list'),
    action: answerWith({ result: { tools: 'none' } }),
  })
  expect(await rejectionOf(setting.client.listTools())).toMatchObject({
    code: 'UNEXPECTED_RESPONSE',
  })
})

test('reads the list from its start in one session when the session is lost between two pages', async () => {
  await using setting = await startSetting({ server: { pageSize: 2 } })
  const { client, server, proxy } = setting
  await client.ping()
  proxy.inject({
    match: ({ rpcMethod }) =>
      rpcMethod === 'tools/list' && proxy.count({ rpcMethod: 'tools/list' }) === 1,
    times: 1,
    action: async () => {
      server.forgetSessions()
      return 'forward'
    },
  })
  expect(await namesOf(client)).toEqual(all)
  const pages = server.received.filter(is.method('tools/list'))
  expect(pages.map(({ params }) => params?.['cursor'])).toEqual([
    undefined,
    '2',
    undefined,
    '2',
    '4',
  ])
  expect(await namesOf(client)).toEqual(all)
  expect(pages).toHaveLength(5)
})

test('is empty for a server without tools, with a warning if it declares tools, and fails if a later page is not found', async () => {
  await using setting = await startSetting({ server: { pageSize: 2 } })
  const { client, proxy, observed } = setting
  const isList = is.method('tools/list')
  const action = answerWith({ error: { code: -32601, message: 'Method not found' } })
  proxy.inject({ match: isList, times: 1, action })
  expect(await namesOf(client)).toEqual([])
  expect(warningsOf(observed)).toEqual([expect.stringContaining('Method not found')])
  const isSecondPage: typeof isList = (one) =>
    isList(one) && proxy.count({ rpcMethod: 'tools/list' }) === 2
  proxy.inject({ match: isSecondPage, times: 1, action })
  const refreshed = client.listTools({ forceRefresh: true })
  expect(await rejectionOf(refreshed)).toMatchObject({ code: -32601 })
  expect(await namesOf(client)).toEqual([])
  expect(await namesOf(client, { forceRefresh: true })).toEqual(all)
})

test.each([400, 404, 500])(
  'is empty if a server without tools says so with HTTP %d',
  async (status) => {
    await using setting = await startSetting()
    const { client, proxy } = setting
    const error = { code: -32601, message: 'Method not found' }
    const body: CannedAnswer['body'] = (id) => JSON.stringify({ jsonrpc: '2.0', id, error })
    proxy.inject({ match: is.method('tools/list'), action: { status, body } })
    expect(await namesOf(client)).toEqual([])
  },
)

test('is empty for a server that declares no tools, without a warning', async () => {
  await using server = await startScriptedServer({
    'server/discover': { result: { ...discoverResult, capabilities: {} } },
  })
  await using client = new McpClient(server.url)
  const observed = recordEvents(client)
  expect(await client.listTools()).toEqual([])
  expect(warningsOf(observed)).toEqual([])
})

test('is kept for more principals than idle sessions', async () => {
  const idleScopes = { max: 0 }
  await using setting = await startSetting({
    client: { scope: () => ({ principal: 'none' }), toolsPer: 'principal', idleScopes },
  })
  const { client, server } = setting
  for (const principal of ['ada', 'bob', 'ada', 'bob'])
    expect(await namesOf(client, { scope: { principal } })).toEqual(all)
  expect(server.count('tools/list')).toBe(2)
})

test('stays current for 5 minutes if the session that has read it is lost, and not replaced', async () => {
  vi.useFakeTimers({ toFake: ['performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const scope = (): SessionScope => ({ principal: 'ada', thread: 't1' })
  await using setting = await startSetting({
    client: { scope, toolsPer: 'principal', maxRetries: 0 },
  })
  const { client, server } = setting
  await client.listTools()
  server.forgetSessions()
  await expect(client.ping()).rejects.toMatchObject({ code: 'SESSION_LOST' })
  const other = { scope: { principal: 'ada', thread: 't2' } }
  await client.listTools(other)
  expect(server.count('tools/list')).toBe(1)
  vi.advanceTimersByTime(300_000)
  await client.listTools(other)
  expect(server.count('tools/list')).toBe(2)
})

test('has each tool of a repeated page once, also if its metadata differs', async () => {
  await using setting = await startSetting()
  const { client, proxy } = setting
  let pages = 0
  const body: CannedAnswer['body'] = (id) => {
    const tool = { name: 'a', inputSchema: { type: 'object' }, _meta: { page: ++pages } }
    const result = { tools: [tool, { name: 'bad' }], nextCursor: 'again' }
    return JSON.stringify({ jsonrpc: '2.0', id, result })
  }
  proxy.inject({ match: is.method('tools/list'), action: { status: 200, body } })
  const leftOut: string[] = []
  const tools = await client.listTools({ onLeftOut: ({ name }) => leftOut.push(name) })
  expect(tools).toMatchObject([{ name: 'a', _meta: { page: 1 } }])
  expect(leftOut).toEqual(['bad', 'tools of further pages'])
  expect(pages).toBe(2)
})

function listOf(...names: string[]): CannedAnswer {
  const tools = names.map((name) => ({ name, inputSchema: { type: 'object' } }))
  return answerWith({ result: { tools } })
}
