// What goes wrong while the connection replaces a session by itself (`onSessionLost: 'reinitialize'`).
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { deferred, startScriptedServer } from '@x/mcp-testing'
import type { ScriptedAnswer } from '@x/mcp-testing'
import { expect, onTestFinished, test, vi } from 'vitest'
import { StreamableHttpTransport, TransportError } from '../src/index.ts'
import type { StreamableHttpTransportOptions } from '../src/index.ts'
import { connectionTo, outcomeOf } from './connection.ts'

const broken = { error: { code: -32603, message: 'broken' } }
const notFound: ScriptedAnswer = {
  status: 404,
  headers: { 'content-type': 'application/json' },
  body: '{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}',
}

const discovered: ScriptedAnswer = {
  result: {
    ttlMs: 0,
    cacheScope: 'private',
    capabilities: { tools: {} },
    supportedVersions: ['2026-07-28'],
    _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'test', version: '1.0.0' } },
  },
}

function session(id: string): ScriptedAnswer {
  return {
    headers: { 'mcp-session-id': id },
    result: {
      resultType: undefined,
      protocolVersion: '2025-11-25',
      capabilities: { tools: {}, logging: {} },
      serverInfo: { name: 'test', version: '1.0.0' },
    },
  }
}

async function connected(
  url: string,
  options: StreamableHttpTransportOptions = {},
): Promise<{ client: Client; transport: StreamableHttpTransport }> {
  const transport = new StreamableHttpTransport(url, {
    onSessionLost: 'reinitialize',
    timeouts: { probeMs: 300 },
    ...options,
  })
  const client = new Client({ name: 'test', version: '1.0.0' })
  await client.connect(transport)
  return { client, transport }
}

const outcome = (call: Promise<unknown>): Promise<string> =>
  call.then(
    () => 'answered',
    (error: unknown) => String(error),
  )

test('calls are answered while the handshake that tests a failing server hangs', async () => {
  let handshakes = 0
  await using server = await startScriptedServer({
    'server/discover': { status: 404 },
    initialize: () => (++handshakes === 1 ? session('first') : { end: 'hang' }),
    'tools/call': broken,
    ping: broken,
  })
  const { client } = await connected(server.url)
  for (let call = 0; call < 5; call++) {
    expect(await outcome(client.callTool({ name: 'echo' }))).toContain('broken')
  }
  await client.close()
})

test('the end of a session that is being tested opens no other one', async () => {
  const pinged = deferred()
  const released = deferred()
  await using server = await startScriptedServer({
    'server/discover': { status: 404 },
    initialize: session('first'),
    'tools/call': broken,
    ping: async () => {
      pinged.resolve()
      await released.promise
      return broken
    },
  })
  const { client, transport } = await connected(server.url)
  for (let call = 0; call < 2; call++) await outcome(client.callTool({ name: 'echo' }))
  const third = outcome(client.callTool({ name: 'echo' }))
  await pinged.promise
  await transport.terminateSession()
  released.resolve()
  await third
  const other = await connected(server.url) // takes longer than the handshake that must not happen
  expect(server.count('initialize')).toBe(2)
  await Promise.all([client.close(), other.client.close()])
})

test('a replacement that its caller aborts rejects with the reason as cause', async () => {
  let handshakes = 0
  await using server = await startScriptedServer({
    'server/discover': { status: 404 },
    initialize: () => (++handshakes === 1 ? session('first') : { end: 'hang' }),
    'tools/call': notFound,
  })
  await using connection = await connectionTo(server.url)
  await connection.notify({ jsonrpc: '2.0', method: 'notifications/initialized' })
  await outcomeOf(connection, { method: 'tools/call', params: { name: 'echo' } })
  const caller = new AbortController()
  const replaced = connection.replaceSession(connection.epoch, caller.signal)
  const failure = replaced.catch((error: unknown) => error)
  await server.waitFor(() => server.count('initialize') === 2)
  const cause = new Error('enough')
  caller.abort(cause)
  expect(await failure).toMatchObject({ name: 'TransportError', code: 'CLOSED', cause })
})

test('settings whose restoration the caller aborts are restored by the next replacement', async () => {
  const levels: unknown[] = []
  let handshakes = 0
  await using server = await startScriptedServer({
    'server/discover': { status: 404 },
    initialize: () => session(`session-${++handshakes}`),
    'logging/setLevel': ({ headers }) => {
      levels.push(headers['mcp-session-id'])
      return levels.length === 2 ? { end: 'hang' } : { result: { resultType: undefined } }
    },
    'tools/call': notFound,
  })
  await using connection = await connectionTo(server.url)
  await connection.notify({ jsonrpc: '2.0', method: 'notifications/initialized' })
  await outcomeOf(connection, { method: 'logging/setLevel', params: { level: 'info' } })
  await outcomeOf(connection, { method: 'tools/call', params: { name: 'echo' } })
  const lost = connection.epoch
  const caller = new AbortController()
  const replaced = connection.replaceSession(lost, caller.signal)
  await server.waitFor(() => server.count('logging/setLevel') === 2)
  caller.abort()
  await replaced
  await connection.replaceSession(lost, new AbortController().signal)
  expect(levels).toEqual(['session-1', 'session-2', 'session-2'])
  expect(handshakes).toBe(2)
})

test('no timer is left of a setting whose restoration the caller aborts', async () => {
  let settings = 0
  await using server = await startScriptedServer({
    'server/discover': { status: 404 },
    initialize: session('first'),
    'logging/setLevel': () =>
      ++settings === 2 ? { end: 'hang' } : { result: { resultType: undefined } },
    'tools/call': notFound,
  })
  await using connection = await connectionTo(server.url)
  await connection.notify({ jsonrpc: '2.0', method: 'notifications/initialized' })
  await outcomeOf(connection, { method: 'logging/setLevel', params: { level: 'info' } })
  await outcomeOf(connection, { method: 'tools/call', params: { name: 'echo' } })
  const started = vi.spyOn(globalThis, 'setTimeout')
  const ended = vi.spyOn(globalThis, 'clearTimeout')
  onTestFinished(() => void vi.restoreAllMocks())
  const caller = new AbortController()
  const replaced = connection.replaceSession(connection.epoch, caller.signal)
  await server.waitFor(() => settings === 2)
  caller.abort()
  await replaced
  const long = started.mock.results.filter((_, n) => Number(started.mock.calls[n]?.[1]) > 1e9)
  expect(long).toHaveLength(1)
  expect(ended.mock.calls.some(([timer]) => timer === long[0]?.value)).toBe(true)
})

test('a late failure replaces no session after a replacement that has failed', async () => {
  let isDown = false
  let handshakes = 0
  await using server = await startScriptedServer({
    'server/discover': () => ({ status: isDown ? 503 : 404 }),
    initialize: () => (isDown ? { status: 503 } : session(`session-${++handshakes}`)),
    'tools/call': notFound,
  })
  const { signal } = new AbortController()
  await using connection = await connectionTo(server.url)
  await connection.notify({ jsonrpc: '2.0', method: 'notifications/initialized' })
  await outcomeOf(connection, { method: 'tools/call', params: { name: 'echo' } })
  const lost = connection.epoch
  await connection.replaceSession(lost, signal)
  const { epoch, sessionId } = connection
  isDown = true
  const failed = connection.replaceSession(epoch, signal, true)
  await expect(failed).rejects.toMatchObject({ code: 'REJECTED', status: 503 })
  isDown = false
  await connection.replaceSession(lost, signal, true)
  expect(connection).toMatchObject({ epoch, sessionId })
})

test('a client that opens again sends its settings itself', async () => {
  const levels: unknown[] = []
  let handshakes = 0
  await using server = await startScriptedServer({
    'server/discover': { status: 404 },
    initialize: () => session(`session-${++handshakes}`),
    'logging/setLevel': ({ headers }) => {
      levels.push(headers['mcp-session-id'])
      return { result: { resultType: undefined } }
    },
    'tools/call': notFound,
  })
  const initialized = { jsonrpc: '2.0', method: 'notifications/initialized' } as const
  await using connection = await connectionTo(server.url)
  await connection.notify(initialized)
  await outcomeOf(connection, { method: 'logging/setLevel', params: { level: 'info' } })
  await connection.terminate()
  const clientInfo = { name: 'other', version: '1' }
  await connection.open({ protocolVersion: '2025-11-25', capabilities: {}, clientInfo })
  await connection.notify(initialized)
  await outcomeOf(connection, { method: 'tools/call', params: { name: 'echo' } })
  await connection.replaceSession(connection.epoch, new AbortController().signal)
  expect(levels).toEqual(['session-1'])
})

test('calls that are sent again come after the settings of the new session', async () => {
  const seen: string[] = []
  let handshakes = 0
  await using server = await startScriptedServer({
    'server/discover': { status: 404 },
    initialize: () => session(++handshakes === 1 ? 'first' : 'second'),
    'logging/setLevel': () => {
      seen.push('level')
      return { result: { resultType: undefined } }
    },
    'tools/call': ({ headers }) => {
      if (headers['mcp-session-id'] === 'first') return notFound
      seen.push('call')
      return { result: { resultType: undefined, content: [] } }
    },
  })
  const { client } = await connected(server.url)
  await client.setLoggingLevel('info')
  await Promise.all(Array.from({ length: 20 }, () => client.callTool({ name: 'echo' })))
  await client.close()
  expect(seen.slice(0, 3)).toEqual(['level', 'level', 'call'])
  expect(seen).toHaveLength(22)
})

test('a server of both eras shows the stateless one when its era is detected again', async () => {
  await using server = await startScriptedServer({
    'server/discover': discovered,
    initialize: session('first'),
  })
  await using connection = await connectionTo(server.url, { era: 'legacy-first' })
  expect(connection.era).toBe('legacy')
  await connection.replaceSession(connection.epoch, new AbortController().signal, true)
  expect(connection.era).toBe('modern')
})

test.each(['auto', 'legacy-first'] as const)(
  'a stateless server that answers no probe in time is probed again: %s',
  async (era) => {
    let probes = 0
    await using server = await startScriptedServer({
      'server/discover': () => {
        return ++probes === 1 ? { end: 'hang' } : discovered
      },
      initialize: {
        error: {
          code: -32022,
          message: 'Unsupported protocol version',
          data: { supported: ['2026-07-28'], requested: '2025-11-25' },
        },
      },
    })
    const { client, transport } = await connected(server.url, { era })
    expect(transport.era).toBe('modern')
    await client.close()
  },
)

test('calls without a token keep a healthy session', async () => {
  await using server = await startScriptedServer({
    'server/discover': { status: 404 },
    initialize: session('first'),
    'tools/call': { result: { resultType: undefined, content: [] } },
  })
  let missing = 0
  const token = async (): Promise<string> => {
    if (missing-- > 0) throw new TransportError('UNAUTHORIZED', 'signed out')
    return 'token'
  }
  const { client } = await connected(server.url, { listen: false, authProvider: { token } })
  missing = 4 // of three calls, and of the test that must not follow
  for (let call = 0; call < 4; call++) {
    expect(await outcome(client.callTool({ name: 'echo' }))).toContain('signed out')
  }
  expect(await outcome(client.callTool({ name: 'echo' }))).toBe('answered')
  expect(server.count('initialize')).toBe(1)
  await client.close()
})
