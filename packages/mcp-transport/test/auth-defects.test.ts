import { ClientCredentialsProvider as ProviderV1 } from '@modelcontextprotocol/sdk/client/auth-extensions.js'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { McpError } from '@modelcontextprotocol/sdk/types.js'
import {
  Client as ClientV2,
  ClientCredentialsProvider as ProviderV2,
} from '@modelcontextprotocol/client'
import { stopClock } from '@x/internal/testing/clock'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { deferred } from '@x/mcp-testing'
import { bearer, createAuthProvider } from '../src/auth/index.ts'
import type { OAuthClientProvider } from '../src/auth/index.ts'
import { StreamableHttpTransport, TransportError } from '../src/index.ts'
import type { ExchangeEvent, StreamableHttpTransportOptions } from '../src/index.ts'
import type { TransportErrorCode, TransportErrorOptions } from '../src/transport-error.ts'
import { browse, startProtectedServer } from './protected-server.ts'
import type { ProtectedServer } from './protected-server.ts'

const open: AsyncDisposable[] = []
afterEach(async () => {
  for (const one of open.splice(0)) await one[Symbol.asyncDispose]()
})

async function connect(
  server: ProtectedServer,
  options: StreamableHttpTransportOptions,
): Promise<{ client: Client; transport: StreamableHttpTransport; errors: Error[] }> {
  const transport = new StreamableHttpTransport(server.url, {
    era: 'legacy',
    listen: false,
    ...options,
  })
  open.push(transport)
  const client = new Client({ name: 'test', version: '1' })
  const errors: Error[] = []
  client.onerror = (error) => errors.push(error)
  await client.connect(transport)
  return { client, transport, errors }
}

async function authorizedProvider(server: ProtectedServer): Promise<OAuthClientProvider> {
  const provider = createAuthProvider({
    redirectUrl: 'http://127.0.0.1:9/callback',
    redirect: browse,
    clientId: 'c',
  })
  await provider.saveTokens({ ...server.issue(), issuer: server.origin })
  return provider
}

const call = (client: Client): Promise<unknown> => client.callTool({ name: 'any' })
const tokenOf = (result: unknown): unknown =>
  (result as { content: { text: string }[] }).content[0]?.text

/** The `TransportError` that a call failed with. */
async function failureOf(promise: Promise<unknown>): Promise<TransportError> {
  const error: unknown = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  const data: unknown = error instanceof McpError ? error.data : error
  if (!TransportError.is(data)) throw new TypeError(`No TransportError: ${String(error)}`)
  return data
}

test('D3: sends two GETs and one refresh, and reports one error, for a stream that is always refused', async () => {
  await using server = await startProtectedServer()
  server.behaviour.pages['/mcp'] = ({ method }) => (method === 'GET' ? { status: 401 } : undefined)
  const authProvider = await authorizedProvider(server)
  const notified = deferred<Error>()
  const transport = new StreamableHttpTransport(server.url, { era: 'legacy', authProvider })
  open.push(transport)
  const client = new Client({ name: 'test', version: '1' })
  const errors: Error[] = []
  client.onerror = (error) => {
    errors.push(error)
    notified.resolve(error)
  }
  await client.connect(transport)
  expect(await notified.promise).toMatchObject({ code: 'UNAUTHORIZED', status: 401 })
  expect(tokenOf(await call(client))).toBe('access-2')
  expect(server.of('/token').map(({ form }) => form.get('grant_type'))).toEqual(['refresh_token'])
  expect(server.of('GET /mcp')).toHaveLength(2)
  expect(errors).toHaveLength(1)
})

test('D4: sends one token request for ten refused calls, which then all succeed', async () => {
  await using server = await startProtectedServer()
  const authProvider = await authorizedProvider(server)
  const { client } = await connect(server, { authProvider })
  const gate = deferred()
  server.behaviour.tokenGate = gate.promise
  server.revoke()
  const calls = Array.from({ length: 10 }, () => call(client))
  const all = Promise.all(calls)
  gate.resolve()
  expect((await all).map(tokenOf)).toEqual(Array.from({ length: 10 }, () => 'access-2'))
  expect(server.of('/token')).toHaveLength(1)
})

test('D4: shares one refresh between transports with the same provider', async () => {
  await using server = await startProtectedServer()
  const authProvider = await authorizedProvider(server)
  const [one, other] = await Promise.all([
    connect(server, { authProvider }),
    connect(server, { authProvider }),
  ])
  server.revoke()
  await Promise.all([call(one.client), call(other.client), call(one.client), call(other.client)])
  expect(server.of('/token')).toHaveLength(1)
})

test('D17: sends the same request again with another token', async () => {
  await using server = await startProtectedServer()
  let asked = 0
  const headers = (): Record<string, string> => ({ 'X-Asked': String((asked += 1)) })
  const { client } = await connect(server, {
    authProvider: await authorizedProvider(server),
    headers,
  })
  server.revoke()
  server.seen.length = 0
  await call(client)
  const [first, second] = server.of('POST /mcp')
  expect(second?.body).toBe(first?.body)
  expect({ ...second?.headers, authorization: '' }).toEqual({
    ...first?.headers,
    authorization: '',
  })
  expect(second?.headers['mcp-session-id']).toBe('session')
  expect(second?.headers.authorization).not.toBe(first?.headers.authorization)
  expect(server.of('POST /mcp')).toHaveLength(2)
})

test('D17: passes event ids of the second attempt to the caller', async () => {
  await using server = await startProtectedServer()
  const { client } = await connect(server, { authProvider: await authorizedProvider(server) })
  server.behaviour.eventId = 'e1'
  server.revoke()
  const ids: string[] = []
  const onresumptiontoken = (id: string): void => void ids.push(id)
  const result = await client.callTool({ name: 'any' }, undefined, { onresumptiontoken })
  expect(tokenOf(result)).toBe('access-2')
  expect(ids).toEqual(['e1'])
})

test('D17: sends the same request again after a step-up', async () => {
  await using server = await startProtectedServer({ scopes: { 'tools/call': 'write' } })
  const authProvider = await authorizedProvider(server)
  const { client } = await connect(server, { authProvider, headers: { 'x-own': '1' } })
  server.seen.length = 0
  await call(client)
  const [first, second] = server.of('POST /mcp')
  expect(second?.headers['x-own']).toBe('1')
  expect(second?.body).toBe(first?.body)
  expect(server.of('/authorize')).toHaveLength(1)
})

test('D18: sends no header of the user to the authorization server', async () => {
  await using server = await startProtectedServer()
  const headers = { Authorization: 'Bearer static-secret', 'X-Api-Key': 'key-secret' }
  const authProvider = createAuthProvider({
    redirectUrl: 'http://127.0.0.1:9/callback',
    redirect: browse,
  })
  const { client } = await connect(server, { authProvider, headers })
  server.revoke()
  await call(client)
  const elsewhere = server.seen.filter(({ path }) => path !== '/mcp')
  expect(elsewhere.map(({ path }) => path)).toContain('/token')
  expect(JSON.stringify(elsewhere)).not.toContain('secret')
  expect(JSON.stringify(elsewhere.map((request) => request.headers))).not.toContain('mcp-')
  const sent = server.of('/mcp').map((request) => request.headers['x-api-key'])
  expect(new Set(sent)).toEqual(new Set(['key-secret']))
})

describe('a provider on a transport', () => {
  test('is asked for a token before every request, which replaces a static header', async () => {
    await using server = await startProtectedServer()
    const tokens = [server.issue(), server.issue(), server.issue()].map(
      ({ access_token }) => access_token,
    )
    const asked = [...tokens]
    const { client, transport } = await connect(server, {
      authProvider: bearer(() => asked.shift() ?? tokens[0]),
      headers: { AUTHORIZATION: 'Bearer static' },
    })
    await call(client)
    await transport.terminateSession()
    expect(server.of('/mcp').map(({ method, headers }) => [method, headers.authorization])).toEqual(
      [
        ['POST', 'Bearer access-1'],
        ['POST', 'Bearer access-2'],
        ['POST', 'Bearer access-3'],
        ['DELETE', 'Bearer access-1'],
      ],
    )
  })

  test('causes an exchange event for each attempt', async () => {
    await using server = await startProtectedServer()
    const authProvider = await authorizedProvider(server)
    const events: ExchangeEvent[] = []
    const { client } = await connect(server, { authProvider, onExchange: (e) => events.push(e) })
    server.revoke()
    events.length = 0
    await call(client)
    expect(events.map(({ status, attempt }) => [status, attempt])).toEqual([
      [401, 0],
      [200, 1],
    ])
    expect(JSON.stringify(events)).not.toContain('access-')
  })

  const sealed = (): never => {
    throw new Error('vault is sealed')
  }
  const fails = (code: TransportErrorCode, options?: TransportErrorOptions) => (): never => {
    throw new TransportError(code, 'elsewhere', options)
  }

  const unknown = { outcome: 'unknown' } as const

  test.each([
    ['throws', sealed, 'vault is sealed'],
    ['throws the loss of another session', fails('SESSION_LOST', { certain: true }), 'elsewhere'],
    ['throws an unknown outcome', fails('OUTCOME_UNKNOWN'), 'elsewhere'],
    ['throws a refusal of another server', fails('UNAUTHORIZED', { status: 401 }), 'elsewhere'],
    ['throws a refusal after a part of another call', fails('UNAUTHORIZED', unknown), 'elsewhere'],
    ['gives an empty token', () => '', 'The token is empty'],
    ['gives a token with a line break', () => 'a\r\nb', 'characters that no header may hold'],
  ])('fails the request with the reason if it %s', async (_what, next, reason) => {
    await using server = await startProtectedServer()
    const { access_token } = server.issue()
    let token: () => string = () => access_token
    const { client } = await connect(server, { authProvider: bearer(() => token()) })
    token = next
    server.seen.length = 0
    const failure = await failureOf(call(client))
    expect(failure).toMatchObject({
      code: 'CONFIG',
      outcome: 'not-executed',
      cause: { message: expect.stringContaining(reason) },
    })
    expect(server.seen).toHaveLength(0)
  })

  test('does not delay close() during a renewal', async () => {
    await using server = await startProtectedServer()
    const { client, transport } = await connect(server, {
      authProvider: await authorizedProvider(server),
    })
    server.behaviour.tokenGate = new Promise(() => {})
    server.revoke()
    const failure = failureOf(call(client))
    await expect.poll(() => server.of('/token')).toHaveLength(1)
    await transport.close()
    expect(await failure).toMatchObject({ code: 'CLOSED' })
  })

  test('does not send a cancelled call again', async () => {
    await using server = await startProtectedServer()
    const { client } = await connect(server, { authProvider: await authorizedProvider(server) })
    const gate = deferred()
    server.behaviour.tokenGate = gate.promise
    server.revoke()
    const controller = new AbortController()
    const cancelled = client.callTool({ name: 'any' }, undefined, { signal: controller.signal })
    cancelled.catch(() => {}) // awaited below
    await expect.poll(() => server.of('/token')).toHaveLength(1)
    const { body } = server.of('POST /mcp').at(-1) ?? {}
    controller.abort()
    await expect(cancelled).rejects.toThrow('abort')
    gate.resolve()
    await call(client)
    expect(body).toContain('tools/call')
    expect(server.of('POST /mcp').filter((request) => request.body === body)).toHaveLength(1)
  })
})

function leaving(): { authProvider: OAuthClientProvider; sentTo: URL[] } {
  const sentTo: URL[] = []
  const authProvider = createAuthProvider({
    redirectUrl: 'http://127.0.0.1:9/callback',
    redirect: (url) => sentTo.push(url),
  })
  return { authProvider, sentTo }
}

function waiting(): OAuthClientProvider {
  return createAuthProvider({ redirectUrl: 'http://127.0.0.1:9/callback', redirect: browse })
}

test.each([ProviderV1, ProviderV2])('may be a provider of the SDK: %o', async (Provider) => {
  await using server = await startProtectedServer({ scopesSupported: ['read'] })
  const authProvider = new Provider({
    clientId: 'c',
    clientSecret: 's',
    expectedIssuer: server.origin,
  })
  const { client } = await connect(server, { authProvider })
  server.revoke()
  expect(tokenOf(await call(client))).toBe('access-2')
  expect(server.of('/token').map(({ headers }) => headers.authorization)).toEqual([
    `Basic ${btoa('c:s')}`,
    `Basic ${btoa('c:s')}`,
  ])
})

describe('with a user who has to authorize', () => {
  test('rejects connect() with the reason, and connects after finishAuth()', async () => {
    await using server = await startProtectedServer()
    const { authProvider, sentTo } = leaving()
    const failure = await failureOf(connect(server, { authProvider }))
    expect(failure).toMatchObject({
      code: 'UNAUTHORIZED',
      message: expect.stringContaining('finishAuth()'),
      cause: { code: 'AUTHORIZATION_REQUIRED' },
    })
    const transport = new StreamableHttpTransport(server.url, { era: 'legacy', authProvider })
    await transport.finishAuth(await browse(sentTo[0] ?? new URL('none:')))
    const { client } = await connect(server, { authProvider })
    expect(tokenOf(await call(client))).toBe('access-1')
  })

  test('waits in connect() for a provider that waits for the user, with both SDKs', async () => {
    await using server = await startProtectedServer()
    const { client } = await connect(server, { authProvider: waiting() })
    expect(tokenOf(await call(client))).toBe('access-1')
    const transport = new StreamableHttpTransport(server.url, {
      era: 'legacy',
      authProvider: waiting(),
    })
    open.push(transport)
    const second = new ClientV2({ name: 'test', version: '2' })
    await second.connect(transport)
    expect(tokenOf(await second.callTool({ name: 'any' }))).toBe('access-2')
  })

  test('accepts finishAuth() inside redirectToAuthorization()', async () => {
    await using server = await startProtectedServer()
    const transport = new StreamableHttpTransport(server.url, {
      era: 'legacy',
      authProvider: createAuthProvider({
        redirectUrl: 'http://127.0.0.1:9/callback',
        redirect: async (url) => transport.finishAuth(await browse(url)),
      }),
    })
    open.push(transport)
    const client = new Client({ name: 'test', version: '1' })
    await client.connect(transport)
    expect(tokenOf(await call(client))).toBe('access-1')
  })

  test('does not count the time of the user for the limit of the probe', async () => {
    stopClock()
    await using server = await startProtectedServer()
    const authProvider = createAuthProvider({
      redirectUrl: 'http://127.0.0.1:9/callback',
      redirect(url) {
        vi.advanceTimersByTime(600)
        return browse(url)
      },
    })
    const timeouts = { probeMs: 500 }
    const { client } = await connect(server, { era: 'auto', authProvider, timeouts })
    expect(tokenOf(await call(client))).toBe('access-1')
    expect(server.of('/authorize')).toHaveLength(1)
  })

  test('throws a TypeError from finishAuth() without a provider', async () => {
    const transport = new StreamableHttpTransport('http://127.0.0.1:9/mcp')
    await expect(transport.finishAuth('code')).rejects.toThrow(TypeError)
  })
})
