import { Hono } from 'hono'
import { describe, expect, test } from 'vitest'

import { AgentsAtHand, echo, endless } from '../../test/agents-at-hand.ts'
import { connect } from '../../test/mcp-clients.ts'
import { eventsOf, get, initialize, post, toolCall, URL_OF_TESTS } from '../../test/rpc-requests.ts'
import { bearerAuth } from './auth/bearer.ts'
import { createGateway, type Gateway } from '../gateway.ts'
import type { GatewayOptions } from '../options.ts'
import type { AgentUpdate } from '../agents/agent.ts'

function gatewayWith(options: GatewayOptions = {}): Gateway {
  return createGateway({ sources: [new AgentsAtHand({ echo, endless })], ...options })
}

const list = { jsonrpc: '2.0', id: 1, method: 'tools/list' }

function modern(
  method: string,
  params: object = {},
  headers: Record<string, string> = {},
): Request {
  const meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1.0.0' },
    'io.modelcontextprotocol/clientCapabilities': {},
  }
  return post(
    { jsonrpc: '2.0', id: 1, method, params: { ...params, _meta: meta } },
    {
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': method,
      ...('name' in params && { 'mcp-name': String(params.name) }),
      ...headers,
    },
  )
}

describe('what is refused before it is looked at', () => {
  test.each([
    ['a foreign page', initialize({ origin: 'https://evil.example' }), 403],
    ['a page without an origin', initialize({ origin: 'null' }), 403],
    ['a name that is not ours', initialize({ host: 'evil.example' }), 403],
    ['another content type', post('{}', { 'content-type': 'text/plain' }), 415],
    ['a body that is too long', post('x'.repeat(2000)), 413],
    ['a body that says that it is too long', post('x', { 'content-length': '9999' }), 413],
    ['a body that is no JSON', post('{'), 400],
    [
      'another method',
      new Request(URL_OF_TESTS, { method: 'PUT', headers: { host: 'localhost' } }),
      405,
    ],
  ])('%s', async (_, request, status) => {
    await using gateway = gatewayWith({ http: { maxBodyBytes: 1000 } })
    const response = await gateway.fetch(request)
    expect(response.status).toBe(status)
    await response.text()
  })

  test('a page of this machine is none of them', async () => {
    await using gateway = gatewayWith()
    const response = await gateway.fetch(initialize({ origin: 'http://localhost:6274' }))
    expect(response.status).toBe(200)
    await response.text()
  })

  test.each([
    ['http://localhost/mcp', 200],
    ['http://evil.example/mcp', 403],
  ])(
    'without a Host header, as in tests and over HTTP/2, the URL counts: %s',
    async (url, status) => {
      await using gateway = gatewayWith()
      const { headers, body, method } = initialize()
      headers.delete('host')
      const response = await gateway.fetch(
        new Request(url, { method, headers, body, duplex: 'half' }),
      )
      expect(response.status).toBe(status)
      await response.text()
    },
  )

  test('405 names what is allowed', async () => {
    await using gateway = gatewayWith({ eras: { legacy: 'off' } })
    const response = await gateway.fetch(get({}))
    expect([response.status, response.headers.get('allow')]).toEqual([405, 'POST'])
  })
})

test('a page that is listed may call, and read the answer', async () => {
  await using gateway = gatewayWith({ http: { allowedOrigins: ['https://app.example'] } })
  const origin = 'https://app.example'
  const asked = await gateway.fetch(
    new Request(URL_OF_TESTS, { method: 'OPTIONS', headers: { host: 'localhost', origin } }),
  )
  expect([asked.status, asked.headers.get('access-control-allow-origin')]).toEqual([204, origin])
  const response = await gateway.fetch(modern('tools/list', {}, { origin }))
  expect(response.status).toBe(200)
  expect(response.headers.get('access-control-allow-origin')).toBe(origin)
  expect(response.headers.get('vary')).toContain('Origin')
  expect(response.headers.has('access-control-allow-credentials')).toBe(false)
})

describe('the eras that are served', () => {
  test('a modern request that contradicts its headers is told so', async () => {
    await using gateway = gatewayWith()
    const response = await gateway.fetch(modern('tools/list', {}, { 'mcp-method': 'tools/call' }))
    expect(response.status).toBe(400)
    await expect(response.json()).resolves.toMatchObject({ error: { code: -32_020 } })
  })

  test('without the legacy era its requests get the versions that are served', async () => {
    await using gateway = gatewayWith({ eras: { legacy: 'off' } })
    const response = await gateway.fetch(initialize())
    expect(response.status).toBe(400)
    await expect(response.json()).resolves.toMatchObject({
      error: { code: -32_022, data: { supported: ['2026-07-28'] } },
    })
  })

  test('without the modern era only sessions are served', async () => {
    await using gateway = gatewayWith({ eras: { modern: false } })
    const refused = await gateway.fetch(modern('tools/list'))
    expect(refused.status).toBe(400)
    const { url } = await gateway.listen({ port: 0 })
    await using client = await connect('v2 auto', url)
    expect((await client.listTools()).tools).toHaveLength(2)
  })

  test('a client that loses its session id is served without one', async () => {
    await using gateway = gatewayWith({ eras: { legacy: 'stateless' } })
    const response = await gateway.fetch(post(list))
    expect(await response.text()).toContain('"echo"')
    const { url } = await gateway.listen({ port: 0 })
    await using client = await connect('v1', url)
    const result = await client.callTool('echo', 'Hello')
    expect(result['content']).toEqual([{ type: 'text', text: 'Hello' }])
  })

  test('and is promised nothing that it takes a session for', async () => {
    await using gateway = gatewayWith({ eras: { legacy: 'stateless' } })
    const params = {
      protocolVersion: '2025-11-25',
      capabilities: {},
      clientInfo: { name: 't', version: '1' },
    }
    const hello = await gateway.fetch(post({ jsonrpc: '2.0', id: 1, method: 'initialize', params }))
    const text = await hello.text()
    expect(text).toContain('"tools":{},"prompts":{},"resources":{},"completions":{}')
    expect(text).not.toMatch(/listChanged|subscribe|logging/)
    const uri = 'artifact://s/a.txt'
    const follow = await gateway.fetch(
      post({ jsonrpc: '2.0', id: 2, method: 'resources/subscribe', params: { uri } }),
    )
    expect(await follow.text()).toContain('-32601')
  })

  test('and its notice that it gave up finds the call', async () => {
    const agents = new AgentsAtHand({ endless })
    await using gateway = gatewayWith({ sources: [agents], eras: { legacy: 'stateless' } })
    const response = await gateway.fetch(post(toolCall(7, 'endless', 'Go')))
    for await (const { data } of eventsOf(response)) {
      if (!data.includes('begun')) continue
      const params = { requestId: 7 }
      await gateway.fetch(post({ jsonrpc: '2.0', method: 'notifications/cancelled', params }))
    }
    expect(agents.calls[0]?.signal.aborted).toBe(true)
  })
})

describe('a batch is as many requests as it has messages', () => {
  const authorization = 'Bearer t0ken'
  const many = (count: number): readonly object[] =>
    Array.from({ length: count }, (_, id) => ({ ...list, id }))

  test.each(['sessions', 'stateless'] as const)('for limits: %s', async (legacy) => {
    await using gateway = gatewayWith({
      auth: bearerAuth('t0ken'),
      eras: { legacy },
      limits: { requestsPerMinutePerPrincipal: 10 },
    })
    const refused = await gateway.fetch(post(many(20), { authorization }))
    expect(refused.status).toBe(429)
    expect(refused.headers.get('retry-after')).toBe('6')
  })

  test.each(['sessions', 'stateless'] as const)('of which it has a hundred: %s', async (legacy) => {
    await using gateway = gatewayWith({ eras: { legacy } })
    const refused = await gateway.fetch(post(many(101)))
    expect(refused.status).toBe(400)
    await expect(refused.json()).resolves.toMatchObject({ error: { code: -32_600 } })
  })
})

test('a modern client that leaves has given up its call', async () => {
  const agents = new AgentsAtHand({ endless })
  await using gateway = gatewayWith({ sources: [agents] })
  const params = { name: 'endless', arguments: { message: 'Go' } }
  const request = modern('tools/call', params)
  const leave = new AbortController()
  const answer = gateway.fetch(new Request(request, { signal: leave.signal }))
  while (agents.calls.length === 0) await new Promise(setImmediate)
  leave.abort()
  await (await answer).text()
  expect(agents.calls[0]?.signal.aborted).toBe(true)
})

test('lists say how long they hold, and whether caches may share them', async () => {
  await using open = gatewayWith({ tools: { listTtlMs: 1234 } })
  await expect((await open.fetch(modern('tools/list'))).json()).resolves.toMatchObject({
    result: { ttlMs: 1234, cacheScope: 'public' },
  })
  await using closed = gatewayWith({ auth: bearerAuth('a-token-of-some-length') })
  const headers = { authorization: 'Bearer a-token-of-some-length' }
  await expect(
    (await closed.fetch(modern('tools/list', {}, headers))).json(),
  ).resolves.toMatchObject({ result: { cacheScope: 'private' } })
})

test('a version of a file may be kept by its reader until it ends, the latest one may not', async () => {
  const giving = new AgentsAtHand({
    *give(): Iterable<AgentUpdate> {
      yield { type: 'file', file: { name: 'a.txt', data: Buffer.from('one') } }
      yield { type: 'done' }
    },
  })
  await using gateway = gatewayWith({ sources: [giving] })
  const call = modern('tools/call', { name: 'give', arguments: { message: 'Go' } })
  const [versioned = ''] = /artifact:[^"]+/.exec(await (await gateway.fetch(call)).text()) ?? []
  const read = async (uri: string): Promise<unknown> => {
    return (await gateway.fetch(modern('resources/read', { uri }, { 'mcp-name': uri }))).json()
  }
  expect(versioned).toContain('?version=1')
  const kept = { result: { ttlMs: expect.any(Number), cacheScope: 'private' } }
  const answer = await read(versioned)
  expect(answer).toMatchObject(kept)
  expect(JSON.stringify(answer)).toMatch(/"ttlMs":86[34]\d{5},/)
  const latest = { result: { ttlMs: 0, cacheScope: 'private' } }
  expect(await read(versioned.replace('?version=1', ''))).toMatchObject(latest)
})

test('callers see, and may call, what their scopes allow', async () => {
  await using gateway = gatewayWith({
    auth: bearerAuth({
      ada: { token: 'token-of-ada-0123456789', scopes: ['agent:echo:call'] },
    }),
  })
  const headers = { authorization: 'Bearer token-of-ada-0123456789' }
  const listed = await gateway.fetch(modern('tools/list', {}, headers))
  const { result } = (await listed.json()) as { result: { tools: { name: string }[] } }
  expect(result.tools.map(({ name }) => name)).toEqual(['echo'])

  const params = { name: 'endless', arguments: { message: 'Go' } }
  const refused = await gateway.fetch(modern('tools/call', params, headers))
  expect(refused.status).toBe(403)
  expect(refused.headers.get('www-authenticate')).toContain('agent:endless:call')

  const anonymous = await gateway.fetch(modern('tools/list'))
  expect(anonymous.status).toBe(401)
  expect(anonymous.headers.get('www-authenticate')).toMatch(/^Bearer/)
})

test('a long list comes in pages, whose cursors cannot be made up', async () => {
  const names = ['a', 'b', 'c', 'd', 'e']
  const sources = [new AgentsAtHand(Object.fromEntries(names.map((name) => [name, echo])))]
  await using gateway = gatewayWith({ sources, tools: { pageSize: 2 } })
  const seen: string[] = []
  let cursor: string | undefined
  do {
    const response = await gateway.fetch(modern('tools/list', cursor ? { cursor } : {}))
    const { result } = (await response.json()) as {
      result: { tools: { name: string }[]; nextCursor?: string }
    }
    seen.push(...result.tools.map(({ name }) => name))
    cursor = result.nextCursor
  } while (cursor !== undefined)
  expect(seen).toEqual(names)
  const forged = `${Buffer.from('c').toString('base64url')}.AAAAAAAAAAAAAAAAAAAAAA`
  const refused = await gateway.fetch(modern('tools/list', { cursor: forged }))
  await expect(refused.json()).resolves.toMatchObject({ error: { code: -32_602 } })
})

test('mounted in an application, it serves what comes to its path, and needs no server of its own', async () => {
  await using gateway = gatewayWith()
  const app = new Hono().mount('/mcp', gateway.fetch)
  const response = await app.request(modern('tools/list'))
  await expect(response.json()).resolves.toMatchObject({ result: { resultType: 'complete' } })
})
