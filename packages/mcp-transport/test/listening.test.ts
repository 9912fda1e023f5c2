// The stream of a session for messages that belong to no request: who gets one.
import { describe, expect, test } from 'vitest'
import { SessionInfo } from '../src/index.ts'
import type { StreamableHttpTransportOptions } from '../src/index.ts'
import { connectRaw, rawClient } from './raw-client.ts'
import type { RawClient } from './raw-client.ts'
import { initializeResult, json, openSse, resultOf, scriptedServer } from './scripted-server.ts'
import type { ScriptedServer } from './scripted-server.ts'

/** A server with these capabilities, and a listening stream that stays open. */
function serverWith(capabilities: unknown): ScriptedServer {
  return scriptedServer({
    'POST initialize': (seen) =>
      json(resultOf(seen, { ...initializeResult, capabilities }), { 'mcp-session-id': 's-1' }),
    GET: () => openSse().response,
  })
}

interface Given {
  readonly server?: unknown
  readonly client?: Record<string, unknown>
  readonly options?: StreamableHttpTransportOptions
}

/** Number of GETs of a client that has sent a request after its handshake. */
async function getsOf({ server = {}, client = {}, options }: Given): Promise<number> {
  const scripted = serverWith(server)
  await using raw = rawClient(scripted, options)
  await raw.handshake(client)
  await raw.request('ping')
  return scripted.count('GET')
}

const quiet = {
  tools: { listChanged: false },
  prompts: {},
  resources: { subscribe: false, listChanged: null },
  completions: {},
  experimental: {},
}

describe('a server that announces no messages', () => {
  test.each<[string, unknown]>([
    ['has no capability', {}],
    ['sends an empty list of capabilities, as PHP does', []],
    ['has lists that do not change', quiet],
  ])('gets no GET if it %s', async (_name, server) => {
    expect(await getsOf({ server })).toBe(0)
  })

  test('gets no GET for capabilities of the client that let the server ask nothing', async () => {
    const client = { extensions: { 'io.modelcontextprotocol/tasks': {} }, experimental: { x: {} } }
    expect(await getsOf({ server: quiet, client })).toBe(0)
  })

  test.each(['elicitation', 'sampling', 'roots'])(
    'gets one GET from a client with %s, because questions may come without a call',
    async (capability) => {
      expect(await getsOf({ server: quiet, client: { [capability]: {} } })).toBe(1)
    },
  )

  test('gets one GET from a client with listen: true', async () => {
    expect(await getsOf({ server: quiet, options: { listen: true } })).toBe(1)
  })

  test.each<[string, Record<string, unknown>]>([
    ['logging/setLevel', { level: 'info' }],
    ['resources/subscribe', { uri: 'a://b' }],
  ])('gets one GET with %s', async (method, params) => {
    const server = serverWith(quiet)
    await using client = await connectRaw(server)
    await client.request(method, params)
    await server.waitFor('GET')
    await client.request(method, params)
    expect(server.count('GET')).toBe(1)
  })

  // Servers made with the Python SDK send progress there (python-sdk #2001).
  test('gets one GET with the first request that asks for progress', async () => {
    const server = serverWith(quiet)
    await using client = await connectRaw(server)
    await client.request('tools/call', { name: 'a' })
    expect(server.count('GET')).toBe(0)
    const params = { name: 'a', _meta: { progressToken: 7 } }
    await Promise.all([client.request('tools/call', params), client.request('tools/call', params)])
    await server.waitFor('GET')
    await client.request('tools/call', params)
    expect(server.count('GET')).toBe(1)
  })
})

describe('a server that announces messages', () => {
  test.each<[string, object]>([
    ['tools that change', { tools: { listChanged: true } }],
    ['prompts that change', { ...quiet, prompts: { listChanged: true } }],
    ['resources that change', { resources: { listChanged: true } }],
    ['resources with subscriptions', { ...quiet, resources: { subscribe: true } }],
    ['log messages', { ...quiet, logging: {} }],
    ['tasks of 2025-11-25', { tasks: { list: {} } }],
    ['an experiment', { ...quiet, experimental: { 'example/channel': {} } }],
    ['a capability that is not known', { ...quiet, alarms: {} }],
  ])('gets one GET if it has %s', async (_name, server) => {
    expect(await getsOf({ server })).toBe(1)
  })

  test.each<[string, Given]>([
    ['', { server: { logging: {} } }],
    [', nor for questions', { client: { elicitation: {} } }],
  ])('gets no GET with listen: false%s', async (_name, given) => {
    expect(await getsOf({ ...given, options: { listen: false } })).toBe(0)
  })

  test('gets no GET with listen: false for progress', async () => {
    const server = serverWith({})
    await using client = await connectRaw(server, { listen: false })
    await client.request('tools/call', { name: 'a', _meta: { progressToken: 7 } })
    await client.request('ping')
    expect(server.count('GET')).toBe(0)
  })
})

describe('a resumed session', () => {
  const resumed = async (server: ScriptedServer, sessionInfo: SessionInfo): Promise<RawClient> => {
    await using _ = await connectRaw(server, { sessionInfo })
    return connectRaw(server, { sessionInfo })
  }

  test.each<[string, object, number]>([
    ['no GET if the record announces no messages', quiet, 0],
    ['one GET in each process if the record announces messages', { logging: {} }, 2],
  ])('gets %s', async (_name, capabilities, count) => {
    const server = serverWith(capabilities)
    await using client = await resumed(server, new SessionInfo())
    await client.request('ping')
    expect(server.count('POST initialize')).toBe(1)
    expect(server.count('GET')).toBe(count)
  })
})

// open-webui/open-webui#27795
test('a server that asks to wait gets the next GET only then', async () => {
  const gets: number[] = []
  const server = scriptedServer({
    GET: () => {
      gets.push(performance.now())
      if (gets.length > 1) return openSse().response
      return new Response(null, { status: 429, headers: { 'retry-after': '1' } })
    },
  })
  await using client = rawClient(server, { listen: true, reconnect: { firstMs: 100 } })
  await client.handshake()
  await client.until(() => gets.length === 2)
  expect(Number(gets[1]) - Number(gets[0])).toBeGreaterThanOrEqual(990) // clocks differ a little
})
