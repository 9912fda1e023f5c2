import { describe, expect, test } from 'vitest'

import { AgentsAtHand, echo, endless } from '../../test/agents-at-hand.ts'
import { initialize, modern, post, toolCall, URL_OF_TESTS } from '../../test/rpc-requests.ts'
import { bearerAuth } from './auth/bearer.ts'
import type { Gateway } from '../gateway.ts'
import { Runtime, type RuntimeEdges } from '../gateway/runtime.ts'
import type { GatewayOptions } from '../options.ts'
import type { AgentUpdate } from '../agents/agent.ts'

function gatewayOf(options: GatewayOptions = {}, edges: RuntimeEdges = {}): Gateway {
  const sources = [new AgentsAtHand({ echo, endless })]
  return new Runtime({ sources, ...options }, edges)
}

describe('requests that are refused before they are read', () => {
  test.each([
    ['another content type', post('{}', { 'content-type': 'text/plain' }), 415],
    ['a body that is too long', post('x'.repeat(2000)), 413],
    ['a body with a content-length over the limit', post('x', { 'content-length': '9999' }), 413],
    ['a body that is not JSON', post('{'), 400],
    [
      'another method',
      new Request(URL_OF_TESTS, { method: 'PUT', headers: { host: 'localhost' } }),
      405,
    ],
  ])('refuses %s', async (_, request, status) => {
    await using gateway = gatewayOf({ http: { maxBodyBytes: 1000 } })
    const response = await gateway.fetch(request)
    expect(response.status).toBe(status)
    await response.text()
  })

  test.each([
    [{}, 413],
    [{ auth: bearerAuth('a-token-for-these-tests') }, 200],
    [{ http: { maxBodyBytes: 4_000_000 } }, 200],
  ])('takes 1 MiB where everyone may call: %#', async (options, status) => {
    await using gateway = gatewayOf(options)
    const authorization = 'Bearer a-token-for-these-tests'
    const padding = 'x'.repeat(1_048_576)
    const response = await gateway.fetch(modern('tools/list', { padding }, { authorization }))
    expect(response.status).toBe(status)
    await response.text()
  })

  test.each([
    ['deep lists', '['.repeat(1_000_000) + ']'.repeat(1_000_000), 'has more than 128 levels'],
    ['deep objects', `${'{"a":'.repeat(2000)}1${'}'.repeat(2000)}`, 'has more than 128 levels'],
    ['many values', `[${'1,'.repeat(200_000)}1]`, 'has more than 100000 values'],
  ])('refuses %s before it reads them', async (_, value, excess) => {
    await using gateway = gatewayOf({ http: { maxBodyBytes: 4_000_000 } })
    const requests = [
      post(toolCall(1, 'echo', 'VALUE')),
      modern('tools/call', { _meta: { value: 'VALUE' } }),
      initialize(),
    ]
    for (const request of requests) {
      const body = (await request.text())
        .replace('"VALUE"', value)
        .replace('"capabilities":{', `$&"x":${value},`)
      const response = await gateway.fetch(new Request(request, { method: 'POST', body }))
      expect([response.status, await response.json()]).toMatchObject([
        400,
        {
          error: { code: -32_600, message: expect.stringContaining(`the request body ${excess}`) },
        },
      ])
    }
  })

  test.each([
    ['http://localhost/mcp', 200],
    ['http://evil.example/mcp', 403],
  ])('checks the host of the URL if there is no Host header: %s', async (url, status) => {
    await using gateway = gatewayOf()
    const { headers, body, method } = initialize()
    headers.delete('host')
    const response = await gateway.fetch(
      new Request(url, { method, headers, body, duplex: 'half' }),
    )
    expect(response.status).toBe(status)
    await response.text()
  })
})

test('lets a listed page call and read the reply', async () => {
  await using gateway = gatewayOf({ http: { allowedOrigins: ['https://app.example'] } })
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

test('refuses a JSON-RPC batch of every revision, and executes nothing', async () => {
  const agents = new AgentsAtHand({ echo })
  await using gateway = gatewayOf({ sources: [agents] })
  const batch = [toolCall(1, 'echo', 'one'), toolCall(2, 'echo', 'two')]
  for (const revision of ['2025-03-26', '2026-07-28']) {
    const refused = await gateway.fetch(post(batch, { 'mcp-protocol-version': revision }))
    expect(refused.status).toBe(400)
    await expect(refused.json()).resolves.toMatchObject({
      error: { code: -32_600, message: expect.stringContaining('a request of its own') },
    })
  }
  expect(agents.calls).toEqual([])
})

test('sends the TTL and the cache scope of lists', async () => {
  await using open = gatewayOf()
  await expect((await open.fetch(modern('tools/list'))).json()).resolves.toMatchObject({
    result: { ttlMs: 5000, cacheScope: 'public' },
  })
  await using closed = gatewayOf({ auth: bearerAuth('a-token-of-some-length') })
  const headers = { authorization: 'Bearer a-token-of-some-length' }
  await expect(
    (await closed.fetch(modern('tools/list', {}, headers))).json(),
  ).resolves.toMatchObject({ result: { cacheScope: 'private' } })
})

test('lets clients cache a version of a file until it expires, but not the latest version', async () => {
  const giving = new AgentsAtHand({
    *give(): Iterable<AgentUpdate> {
      yield { type: 'file', file: { name: 'a.txt', data: Buffer.from('one') } }
      yield { type: 'done' }
    },
  })
  await using gateway = gatewayOf({ sources: [giving], resultTtlMs: 100_000_000 })
  const call = modern('tools/call', { name: 'give', arguments: { message: 'Go' } })
  const [versioned = ''] = /artifact:[^"]+/.exec(await (await gateway.fetch(call)).text()) ?? []
  const read = async (uri: string): Promise<unknown> => {
    return (await gateway.fetch(modern('resources/read', { uri }))).json()
  }
  expect(versioned).toContain('?version=1')
  const kept = { result: { ttlMs: expect.any(Number), cacheScope: 'private' } }
  const answer = await read(versioned)
  expect(answer).toMatchObject(kept)
  expect(JSON.stringify(answer)).toMatch(/"ttlMs":99\d{6},/)
  const latest = { result: { ttlMs: 0, cacheScope: 'private' } }
  expect(await read(versioned.replace('?version=1', ''))).toMatchObject(latest)
})

test('shows and executes only tools that the scopes of a caller allow', async () => {
  await using gateway = gatewayOf({
    auth: bearerAuth({
      ada: { token: 'token-of-ada-0123456789', scopes: ['agent:echo:call'] },
    }),
    tools: { overrides: { endless: { scopes: ['agent:echo:call', 'refund'] } } },
  })
  const headers = { authorization: 'Bearer token-of-ada-0123456789' }
  const listed = await gateway.fetch(modern('tools/list', {}, headers))
  const { result } = (await listed.json()) as { result: { tools: { name: string }[] } }
  expect(result.tools.map(({ name }) => name)).toEqual(['echo'])

  const params = { name: 'endless', arguments: { message: 'Go' } }
  const refused = await gateway.fetch(modern('tools/call', params, headers))
  expect(refused.status).toBe(403)
  expect(refused.headers.get('www-authenticate')).toBe(
    'Bearer error="insufficient_scope", scope="agent:echo:call refund"',
  )
  await expect(refused.json()).resolves.toEqual({
    error: 'insufficient_scope',
    error_description: 'The token lacks a scope. The call needs: agent:echo:call, refund',
  })

  const anonymous = await gateway.fetch(modern('tools/list'))
  expect(anonymous.status).toBe(401)
  expect(anonymous.headers.get('www-authenticate')).toMatch(/^Bearer/)
})

test('sends a long list in pages, with cursors that cannot be forged', async () => {
  const names = ['a', 'b', 'c', 'd', 'e']
  const sources = [new AgentsAtHand(Object.fromEntries(names.map((name) => [name, echo])))]
  await using gateway = gatewayOf({ sources }, { pageSize: 2 })
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
