import { createHash } from 'node:crypto'

import { startTestServer } from '@x/test-kit'
import { expect, test } from 'vitest'

import { MemoryGatewayStore } from '../../store/memory-gateway-store.ts'
import type { Authenticator } from '../authenticator.ts'
import { facadeAuth, type FacadeAuthOptions } from './facade-auth.ts'

const ORIGIN = 'https://gateway.example'
const RESOURCE = `${ORIGIN}/mcp`
const REDIRECT = 'http://127.0.0.1:4444/callback'
const VERIFIER = 'v'.repeat(50)
const CHALLENGE = createHash('sha256').update(VERIFIER).digest('base64url')

interface Upstream extends AsyncDisposable {
  readonly url: string
  readonly asked: string[]
  /** Answers of all but sign-in pages; 200 with what they should hold, unless set. */
  status: number
  isDown: boolean
  user: object
}

/** The identity service, on a real port. */
async function startUpstream(): Promise<Upstream> {
  const asked: string[] = []
  const server = await startTestServer(
    (request, response) => {
      asked.push(`${request.method} ${request.url}`)
      if (upstream.isDown) return void response.destroy()
      const { pathname } = new URL(request.url ?? '', 'http://upstream')
      const renewed = pathname === '/refresh_token'
      const tokens = {
        access_token: renewed ? 'upstream-access-2' : 'upstream-access',
        refresh_token: renewed ? 'upstream-refresh-2' : 'upstream-refresh',
        expires_in: 600,
      }
      response.writeHead(upstream.status, { 'content-type': 'application/json' })
      response.end(JSON.stringify(pathname === '/user_info' ? upstream.user : tokens))
    },
    { path: '' },
  )
  const upstream: Upstream = {
    url: server.url,
    asked,
    status: 200,
    isDown: false,
    user: { sub: 'ann', email: 'ann@example.org' },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  }
  return upstream
}

/** Facades over one store, as two processes have them, with an identity service behind. */
async function start(options: Partial<FacadeAuthOptions> = {}) {
  const upstream = await startUpstream()
  const time = { now: Date.parse('2026-01-01') }
  const now = (): number => time.now
  const store = new MemoryGatewayStore({ now })
  const errors: unknown[] = []
  const make = (): Authenticator =>
    facadeAuth({
      store,
      resource: RESOURCE,
      upstreamUrl: upstream.url,
      now,
      onError: (error) => errors.push(error),
      ...options,
    })
  return {
    upstream,
    time,
    store,
    errors,
    one: make(),
    other: make(),
    [Symbol.asyncDispose]: async () => {
      await store.close()
      await upstream[Symbol.asyncDispose]()
    },
  }
}

async function ask(auth: Authenticator, path: string, init?: RequestInit): Promise<Response> {
  const answer = await auth.handle?.(new Request(`${ORIGIN}${path}`, init), {
    address: '192.0.2.1',
  })
  if (answer === undefined) throw new Error(`Nobody answers ${path}`)
  return answer
}

const post = (auth: Authenticator, form: Record<string, string>): Promise<Response> =>
  ask(auth, '/oauth/token', { method: 'POST', body: new URLSearchParams(form) })

const registration = (auth: Authenticator, body: unknown): Promise<Response> =>
  ask(auth, '/oauth/register', { method: 'POST', body: JSON.stringify(body) })

async function register(auth: Authenticator, redirectUris: string[] = [REDIRECT]): Promise<string> {
  const response = await registration(auth, { redirect_uris: redirectUris })
  expect(response.status).toBe(201)
  return ((await response.json()) as { client_id: string }).client_id
}

const authorizeQuery = (clientId: string, more: Record<string, string> = {}): string => {
  const all = {
    response_type: 'code',
    client_id: clientId,
    redirect_uri: REDIRECT,
    code_challenge: CHALLENGE,
    code_challenge_method: 'S256',
    state: 'client-state',
    ...more,
  }
  return `/oauth/authorize?${new URLSearchParams(all).toString()}`
}

const locationOf = (response: Response): URL => {
  expect(response.status).toBe(302)
  return new URL(response.headers.get('location') ?? '')
}

/** Goes to the identity service, and gets the state it would bring back. */
async function begin(
  auth: Authenticator,
  clientId: string,
  more?: Record<string, string>,
): Promise<string> {
  const login = locationOf(await ask(auth, authorizeQuery(clientId, more)))
  expect(login.pathname).toBe('/login')
  expect(login.searchParams.get('gateway_uri')).toBe(`${ORIGIN}/oauth/callback`)
  return login.searchParams.get('state') ?? ''
}

const comeBack = (
  auth: Authenticator,
  state: string,
  more = '&code=upstream-code',
): Promise<Response> => ask(auth, `/oauth/callback?state=${state}${more}`)

/** Signs in as far as the code. */
async function codeOf(
  auth: Authenticator,
  clientId: string,
  more?: Record<string, string>,
): Promise<string> {
  const back = locationOf(await comeBack(auth, await begin(auth, clientId, more)))
  return back.searchParams.get('code') ?? ''
}

const exchangeOf = (clientId: string, code: string): Record<string, string> => ({
  grant_type: 'authorization_code',
  client_id: clientId,
  redirect_uri: REDIRECT,
  code,
  code_verifier: VERIFIER,
})

interface Tokens {
  access_token: string
  refresh_token: string
  expires_in: number
  scope: string
}

async function tokensOf(auth: Authenticator, clientId: string): Promise<Tokens> {
  const response = await post(auth, exchangeOf(clientId, await codeOf(auth, clientId)))
  expect(response.status).toBe(200)
  return (await response.json()) as Tokens
}

const callerOf = (auth: Authenticator, token: string): Promise<unknown> =>
  auth.authenticate({
    method: 'POST',
    url: RESOURCE,
    headers: new Headers({ authorization: `Bearer ${token}` }),
  })

async function expectError(response: Response, status: number, error: string): Promise<void> {
  expect(response.status).toBe(status)
  // No word more: not what was wrong, not of whom.
  await expect(response.json()).resolves.toEqual({ error })
  expect(response.headers.get('cache-control')).toBe('no-store')
}

test('each step in another process: register, sign in, come back, get a token, call', async () => {
  await using world = await start()
  const { one, other, upstream } = world
  const clientId = await register(one)
  const state = await begin(other, clientId)
  const back = locationOf(await comeBack(one, state))
  expect(`${back.origin}${back.pathname}`).toBe(REDIRECT)
  expect(back.searchParams.get('state')).toBe('client-state')
  expect(back.searchParams.get('iss')).toBe(ORIGIN) // RFC 9207
  const answer = await post(other, exchangeOf(clientId, back.searchParams.get('code') ?? ''))
  expect(answer.headers.get('cache-control')).toBe('no-store')
  const tokens = (await answer.json()) as Tokens
  expect(tokens).toMatchObject({ token_type: 'Bearer', expires_in: 600, scope: '*' })
  await expect(callerOf(one, tokens.access_token)).resolves.toEqual({
    id: `${ORIGIN}|ann`,
    scopes: ['*'],
    isAnonymous: false,
    claims: { sub: 'ann', email: 'ann@example.org' },
  })
  expect(JSON.stringify(tokens)).not.toContain('upstream')
  expect(upstream.asked).toEqual([
    'POST /gateway-oauth/exchange?code=upstream-code&gateway_uri=https%3A%2F%2Fgateway.example%2Foauth%2Fcallback',
    'GET /user_info?provider=azure',
  ])
})

test('nothing in the store could be used by whoever reads it', async () => {
  await using world = await start()
  const clientId = await register(world.one)
  const state = await begin(world.one, clientId)
  const code = await codeOf(world.one, clientId)
  const tokens = await tokensOf(world.one, clientId)
  const kept = JSON.stringify(await world.store.values.list(''))
  for (const secret of [
    state,
    code,
    tokens.access_token,
    tokens.refresh_token,
    'upstream-refresh',
    'ann@',
  ]) {
    expect(kept).not.toContain(secret)
  }
})

test('the metadata names what there is (RFC 8414)', async () => {
  await using world = await start({ scopesSupported: ['agent:shop:call'] })
  const response = await ask(world.one, '/.well-known/oauth-authorization-server')
  await expect(response.json()).resolves.toMatchObject({
    issuer: ORIGIN,
    authorization_endpoint: `${ORIGIN}/oauth/authorize`,
    token_endpoint: `${ORIGIN}/oauth/token`,
    registration_endpoint: `${ORIGIN}/oauth/register`,
    code_challenge_methods_supported: ['S256'],
    token_endpoint_auth_methods_supported: ['none'],
    authorization_response_iss_parameter_supported: true,
    client_id_metadata_document_supported: true,
    scopes_supported: ['agent:shop:call'],
  })
  const resource = await ask(world.one, '/.well-known/oauth-protected-resource/mcp')
  await expect(resource.json()).resolves.toMatchObject({
    resource: RESOURCE,
    authorization_servers: [ORIGIN],
  })
  for (const path of ['/oauth/token', '/.well-known/oauth-authorization-server']) {
    expect(world.one.paths).toContain(path)
  }
  expect(await world.one.handle?.(new Request(RESOURCE))).toBeUndefined()
})

test.each([
  'https://evil.example/callback',
  'https://app.example/callback/',
  'https://app.example/callback?x=1',
  'https://app.example:444/callback',
  'https://app.example.evil.example/callback',
  'http://app.example/callback',
  'http://127.0.0.1.evil.example/callback',
  'http://127.0.0.1@evil.example/callback',
  'http://user@127.0.0.1/callback',
  'http://127.0.0.1\\@evil.example/',
  'http://127.0.0.1/#fragment',
  'http://localhost.evil.example/',
  'http://127.0.0.1/a b',
  'javascript:alert(1)',
  'data:text/html,hi',
  'myapp://callback',
  '//127.0.0.1/callback',
  '',
])('a client that would have codes sent to %j is not registered', async (uri) => {
  await using world = await start({ redirectUris: ['https://app.example/callback'] })
  await expectError(
    await registration(world.one, { redirect_uris: [uri] }),
    400,
    'invalid_redirect_uri',
  )
  const both = { redirect_uris: [REDIRECT, uri] }
  await expectError(await registration(world.one, both), 400, 'invalid_redirect_uri')
})

test.each([
  'https://app.example/callback',
  'http://localhost:1/x',
  'http://[::1]:99/',
  'http://127.0.0.1/',
])('%s may be registered', async (uri) => {
  await using world = await start({ redirectUris: ['https://app.example/callback'] })
  await expect(register(world.one, [uri])).resolves.toEqual(expect.any(String))
})

test.each([
  undefined,
  [],
  {},
  { redirect_uris: 'https://app.example' },
  { redirect_uris: [7] },
  { redirect_uris: [REDIRECT], grant_types: ['client_credentials'] },
  { redirect_uris: [REDIRECT], response_types: ['token'] },
  { redirect_uris: [REDIRECT], client_name: 'x', padding: 'x'.repeat(70_000) },
])('a registration that makes no sense is refused', async (body) => {
  await using world = await start()
  await expectError(await registration(world.one, body), 400, 'invalid_client_metadata')
})

test('one address cannot register without end; the other process counts too', async () => {
  await using world = await start()
  for (let count = 0; count < 5; count++) {
    await register(world.one)
    await register(world.other)
  }
  const refused = await registration(world.other, { redirect_uris: [REDIRECT] })
  expect(refused.status).toBe(429)
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
})

test('a client is remembered while people sign in by it; what nobody used is forgotten after a day', async () => {
  await using world = await start()
  const used = await register(world.one)
  const unused = await register(world.one)
  await codeOf(world.one, used)
  world.time.now += 86_400_001
  await expectError(await ask(world.one, authorizeQuery(unused)), 401, 'invalid_client')
  world.time.now += 80 * 86_400_000
  await codeOf(world.one, used)
  world.time.now += 80 * 86_400_000
  expect((await ask(world.one, authorizeQuery(used))).status).toBe(302)
})

test.each([
  'http://127.0.0.1:4445/callback',
  'http://127.0.0.1:4444/callback/',
  'http://127.0.0.1:4444/callback?x=1',
  'http://127.0.0.1:4444/Callback',
  'http://localhost:4444/callback',
  'https://evil.example/',
])('a redirect to %s, which was not registered, goes nowhere', async (uri) => {
  await using world = await start()
  const clientId = await register(world.one)
  const response = await ask(world.one, authorizeQuery(clientId, { redirect_uri: uri }))
  expect(response.headers.get('location')).toBeNull()
  await expectError(response, 400, 'invalid_request')
})

test('an unknown client, or a request without its parts, goes nowhere', async () => {
  await using world = await start()
  const { one } = world
  const clientId = await register(one)
  await expectError(await ask(one, authorizeQuery('nobody')), 401, 'invalid_client')
  await expectError(await ask(one, authorizeQuery('')), 400, 'invalid_request')
  await expectError(
    await ask(one, authorizeQuery(clientId, { redirect_uri: '' })),
    400,
    'invalid_request',
  )
  const twice = `${authorizeQuery(clientId)}&redirect_uri=https://evil.example/`
  await expectError(await ask(one, twice), 400, 'invalid_request')
})

test('a URI that is no longer allowed is not redirected to', async () => {
  await using world = await start({ redirectUris: ['https://app.example/cb'] })
  const clientId = await register(world.one, ['https://app.example/cb'])
  const stricter = facadeAuth({
    store: world.store,
    resource: RESOURCE,
    upstreamUrl: world.upstream.url,
  })
  const query = authorizeQuery(clientId, { redirect_uri: 'https://app.example/cb' })
  await expectError(await ask(stricter, query), 400, 'invalid_request')
})

test.each<[string, Record<string, string>, string]>([
  ['plain PKCE', { code_challenge_method: 'plain' }, 'invalid_request'],
  ['no method', { code_challenge_method: '' }, 'invalid_request'],
  ['no PKCE', { code_challenge: '', code_challenge_method: '' }, 'invalid_request'],
  ['a challenge that is none', { code_challenge: 'short' }, 'invalid_request'],
  ['a token right away', { response_type: 'token' }, 'unsupported_response_type'],
  ['a token for somebody else', { resource: 'https://other.example/mcp' }, 'invalid_target'],
])('%s is refused, and the client is told', async (_what, more, error) => {
  await using world = await start()
  const clientId = await register(world.one)
  const back = locationOf(await ask(world.one, authorizeQuery(clientId, more)))
  expect(back.host).toBe('127.0.0.1:4444')
  expect(Object.fromEntries(back.searchParams)).toEqual({
    error,
    state: 'client-state',
    iss: ORIGIN,
  })
})

test('a state is good once, and not for ever', async () => {
  await using world = await start()
  const clientId = await register(world.one)
  const state = await begin(world.one, clientId)
  expect((await comeBack(world.one, state)).status).toBe(302)
  await expectError(await comeBack(world.other, state), 400, 'invalid_request')
  const late = await begin(world.one, clientId)
  world.time.now += 300_001
  await expectError(await comeBack(world.one, late), 400, 'invalid_request')
  await expectError(await comeBack(world.one, 'made-up'), 400, 'invalid_request')
  expect(world.upstream.asked).toHaveLength(2) // nobody was asked for a state that is not good
})

test('two who come back with one state at once: one gets in', async () => {
  await using world = await start()
  const state = await begin(world.one, await register(world.one))
  const both = await Promise.all([comeBack(world.one, state), comeBack(world.other, state)])
  expect(both.map(({ status }) => `${status}`).toSorted()).toEqual(['302', '400'])
})

test('who does not sign in is told to the client, without detail', async () => {
  await using world = await start()
  const state = await begin(world.one, await register(world.one))
  const back = locationOf(
    await comeBack(world.one, state, '&error=consent_required&error_description=x'),
  )
  expect(Object.fromEntries(back.searchParams)).toEqual({
    error: 'access_denied',
    state: 'client-state',
    iss: ORIGIN,
  })
})

test.each<[string, Partial<Upstream>, number]>([
  ['refuses the code', { status: 400 }, 502],
  ['fails', { status: 500 }, 502],
  ['is down', { isDown: true }, 503],
  ['does not say who it is', { user: {} }, 502],
])('an identity service that %s: a terse answer, and a report', async (_what, upstream, status) => {
  await using world = await start()
  const state = await begin(world.one, await register(world.one))
  Object.assign(world.upstream, upstream)
  await expectError(await comeBack(world.one, state), status, 'server_error')
  expect(world.errors).toHaveLength(1)
  expect(String(world.errors[0])).not.toContain('upstream-code')
})

test('an identity service that never answers ends after its time', async () => {
  await using server = await startTestServer(() => undefined, { path: '' })
  await using world = await start({ upstreamUrl: server.url, upstreamTimeoutMs: 30 })
  const state = await begin(world.one, await register(world.one))
  await expectError(await comeBack(world.one, state), 503, 'server_error')
})

test('what is nobody’s fault but ours is 500', async () => {
  await using world = await start({
    scopes: () => {
      throw new Error('a bug in a mapping')
    },
  })
  const state = await begin(world.one, await register(world.one))
  await expectError(await comeBack(world.one, state), 500, 'server_error')
})

test('a code that comes twice gives nothing, and takes back what it gave', async () => {
  await using world = await start()
  const clientId = await register(world.one)
  const code = await codeOf(world.one, clientId)
  const first = await post(world.one, exchangeOf(clientId, code))
  const tokens = (await first.json()) as Tokens
  await expect(callerOf(world.one, tokens.access_token)).resolves.toHaveProperty('id')
  await expectError(await post(world.other, exchangeOf(clientId, code)), 400, 'invalid_grant')
  await expect(callerOf(world.one, tokens.access_token)).resolves.toMatchObject({ status: 401 })
  const refresh = {
    grant_type: 'refresh_token',
    client_id: clientId,
    refresh_token: tokens.refresh_token,
  }
  await expectError(await post(world.one, refresh), 400, 'invalid_grant')
})

test.each<[string, Record<string, string>]>([
  ['a wrong verifier', { code_verifier: 'w'.repeat(50) }],
  ['the challenge instead of the verifier', { code_verifier: CHALLENGE }],
  ['no verifier', { code_verifier: '' }],
  ['another redirect URI', { redirect_uri: 'http://127.0.0.1:4444/other' }],
  ['no redirect URI', { redirect_uri: '' }],
  ['another client', { client_id: 'somebody-else' }],
  ['a code that was made up', { code: 'made-up' }],
])('%s gives no token, and there is no second guess', async (_what, wrong) => {
  await using world = await start()
  const clientId = await register(world.one)
  const right = exchangeOf(clientId, await codeOf(world.one, clientId))
  await expectError(await post(world.one, { ...right, ...wrong }), 400, 'invalid_grant')
  const again = await post(world.one, right)
  expect(again.status).toBe('code' in wrong ? 200 : 400)
})

test('a code ends', async () => {
  await using world = await start()
  const clientId = await register(world.one)
  const code = await codeOf(world.one, clientId)
  world.time.now += 300_001
  await expectError(await post(world.one, exchangeOf(clientId, code)), 400, 'invalid_grant')
})

test('other grants and broken requests are named as such', async () => {
  await using world = await start()
  const client = { client_id: 'c' }
  await expectError(
    await post(world.one, { ...client, grant_type: 'password' }),
    400,
    'unsupported_grant_type',
  )
  await expectError(await post(world.one, client), 400, 'invalid_request')
  await expectError(
    await post(world.one, { grant_type: 'authorization_code' }),
    400,
    'invalid_request',
  )
  const json = { method: 'POST', body: '{}', headers: { 'content-type': 'application/json' } }
  await expectError(await ask(world.one, '/oauth/token', json), 400, 'invalid_request')
  expect((await ask(world.one, '/oauth/token')).status).toBe(405)
})

test('access ends, and is renewed by the identity service; the old refresh token is spent', async () => {
  await using world = await start()
  const clientId = await register(world.one)
  const before = await tokensOf(world.one, clientId)
  world.time.now += 600_000
  await expect(callerOf(world.one, before.access_token)).resolves.toMatchObject({ status: 401 })
  const refresh = {
    grant_type: 'refresh_token',
    client_id: clientId,
    refresh_token: before.refresh_token,
  }
  const answer = await post(world.other, refresh)
  const after = (await answer.json()) as Tokens
  await expect(callerOf(world.one, after.access_token)).resolves.toMatchObject({
    id: `${ORIGIN}|ann`,
  })
  await expectError(await post(world.one, refresh), 400, 'invalid_grant')
  const other = { ...refresh, refresh_token: after.refresh_token, client_id: 'somebody-else' }
  await expectError(await post(world.one, other), 400, 'invalid_grant')
})

test.each<[string, Partial<Upstream>, [number, string]]>([
  ['says no', { status: 400 }, [400, 'invalid_grant']],
  ['fails', { status: 500 }, [502, 'server_error']],
  ['is down', { isDown: true }, [503, 'server_error']],
])('a renewal when the identity service %s', async (_what, upstream, [status, error]) => {
  await using world = await start()
  const clientId = await register(world.one)
  const { refresh_token } = await tokensOf(world.one, clientId)
  const refresh = { grant_type: 'refresh_token', client_id: clientId, refresh_token }
  Object.assign(world.upstream, upstream)
  await expectError(await post(world.one, refresh), status, error)
  Object.assign(world.upstream, { status: 200, isDown: false })
  // After an outage nobody has to sign in again.
  expect((await post(world.one, refresh)).status).toBe(status === 400 ? 400 : 200)
})

test('somebody else after a renewal is nobody', async () => {
  await using world = await start()
  const clientId = await register(world.one)
  const { refresh_token } = await tokensOf(world.one, clientId)
  world.upstream.user = { sub: 'bob' }
  const refresh = { grant_type: 'refresh_token', client_id: clientId, refresh_token }
  await expectError(await post(world.one, refresh), 400, 'invalid_grant')
})

test('a client gets of what it asks for what the user may', async () => {
  await using world = await start({
    scopes: (claims) => (claims['sub'] === 'ann' ? ['a', 'b'] : []),
  })
  const clientId = await register(world.one)
  const scopeOf = async (scope: string): Promise<string> => {
    const code = await codeOf(world.one, clientId, { scope })
    const response = await post(world.one, exchangeOf(clientId, code))
    return ((await response.json()) as Tokens).scope
  }
  expect(await scopeOf('b c')).toBe('b')
  expect(await scopeOf('')).toBe('a b')
  expect(await scopeOf('*')).toBe('')
})

test('a client may be known by a document at its URL; on loopback any port will do', async () => {
  const id = 'https://app.example/client.json'
  const documents: Record<string, unknown> = {
    [id]: { client_id: id, redirect_uris: ['http://127.0.0.1/callback', 'https://evil.example/'] },
    'https://liar.example/': { client_id: id, redirect_uris: ['http://127.0.0.1/callback'] },
  }
  await using world = await start({
    guardedFetch: async (input, init) => {
      expect(init).toMatchObject({ redirect: 'error' })
      const document = documents[new Request(input).url]
      return document ? Response.json(document) : new Response(null, { status: 404 })
    },
  })
  const code = await codeOf(world.one, id)
  expect((await post(world.one, exchangeOf(id, code))).status).toBe(200)
  const at = (clientId: string, uri: string): Promise<Response> =>
    ask(world.one, authorizeQuery(clientId, { redirect_uri: uri }))
  await expectError(await at(id, 'http://127.0.0.1:4444/other'), 400, 'invalid_request')
  await expectError(await at(id, 'http://localhost:4444/callback'), 400, 'invalid_request')
  // Anybody can write a document: it opens no more than a registration.
  await expectError(await at(id, 'https://evil.example/'), 400, 'invalid_request')
  await expectError(await at('https://liar.example/', REDIRECT), 401, 'invalid_client')
  await expectError(await at('https://gone.example/', REDIRECT), 401, 'invalid_client')
})

test('a document at an address that is not public is not asked for', async () => {
  await using world = await start()
  await expectError(
    await ask(world.one, authorizeQuery('https://127.0.0.1/c')),
    401,
    'invalid_client',
  )
})

test('a store that is away is 503', async () => {
  await using world = await start()
  const { GatewayError } = await import('../../gateway-error.ts')
  const away = (): Promise<never> => Promise.reject(new GatewayError('UNAVAILABLE', 'no store'))
  const auth = facadeAuth({
    store: {
      rates: { take: away },
      values: Object.assign(Object.create(world.store.values), { get: away }),
    },
    resource: RESOURCE,
    upstreamUrl: world.upstream.url,
  })
  await expectError(await post(auth, { grant_type: 'refresh_token' }), 503, 'server_error')
  await expect(callerOf(auth, 'any')).resolves.toMatchObject({ status: 503 })
})

test.each<[Partial<FacadeAuthOptions>, string]>([
  [{ requirePkce: false }, 'requirePkce'],
  [{ resource: 'http://gateway.example/mcp' }, 'https'],
  [{ upstreamUrl: 'http://identity.example' }, 'https'],
  [{ upstreamUrl: undefined }, 'upstreamUrl'],
])('a configuration that cannot be safe is refused: %j', async (options, message) => {
  await using store = new MemoryGatewayStore()
  const all = { store, resource: RESOURCE, upstreamUrl: 'http://localhost:8050', ...options }
  expect(() => facadeAuth(all)).toThrow(
    expect.objectContaining({ code: 'CONFIG', message: expect.stringContaining(message) }),
  )
})
