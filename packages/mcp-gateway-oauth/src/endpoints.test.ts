import type { Authenticator } from '@x/mcp-gateway'
import { deferred, startTestServer } from '@x/mcp-testing'
import { expect, test, vi } from 'vitest'
import {
  ask,
  authorizeQuery,
  begin,
  callerOf,
  CHALLENGE,
  codeOf,
  comeBack,
  exchangeOf,
  expectError,
  expectPage,
  identityAt,
  locationOf,
  ORIGIN,
  post,
  REDIRECT,
  register,
  registration,
  RESOURCE,
  start,
  tokensOf,
} from '../test/oauth-world.ts'
import type { Tokens, Upstream } from '../test/oauth-world.ts'
import type { Identity, IdentityService } from './identity-service.ts'
import { oauthFacade } from './oauth-facade.ts'

const REFUSED = 'This sign-in cannot be finished here'

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
])('does not register a client with the redirect URI %j', async (uri) => {
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
])('registers a client with the redirect URI %s', async (uri) => {
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
])('refuses malformed client metadata', async (body) => {
  await using world = await start()
  await expectError(await registration(world.one, body), 400, 'invalid_client_metadata')
})

test('limits the registrations of one address, over all processes', async () => {
  await using world = await start()
  for (let count = 0; count < 5; count++) {
    await register(world.one)
    await register(world.other)
  }
  const refused = await registration(world.other, { redirect_uris: [REDIRECT] })
  expect(refused.status).toBe(429)
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
})

test('limits the registrations of all addresses together', async () => {
  await using world = await start()
  const from = async (address: string): Promise<number> => {
    const body = JSON.stringify({ redirect_uris: [REDIRECT] })
    return (await ask(world.one, '/oauth/register', { method: 'POST', body, address })).status
  }
  for (let n = 0; n < 120; n++) expect(await from(`192.0.2.${n}`)).toBe(201)
  expect(await from('192.0.2.120')).toBe(429)
})

test.each([
  'http://127.0.0.1:4445/callback',
  'http://127.0.0.1:4444/callback/',
  'http://127.0.0.1:4444/callback?x=1',
  'http://127.0.0.1:4444/Callback',
  'http://localhost:4444/callback',
  'https://evil.example/',
])('does not redirect to %s, which was not registered', async (uri) => {
  await using world = await start()
  const clientId = await register(world.one)
  const response = await ask(world.one, authorizeQuery(clientId, { redirect_uri: uri }))
  expect(response.headers.get('location')).toBeNull()
  await expectError(response, 400, 'invalid_request')
})

test('does not redirect for an unknown client, or for an incomplete request', async () => {
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

test('does not redirect to a registered URI that the operator no longer allows', async () => {
  await using world = await start({ redirectUris: ['https://app.example/cb'] })
  const clientId = await register(world.one, ['https://app.example/cb'])
  const stricter = oauthFacade({
    store: world.store,
    resource: RESOURCE,
    identity: identityAt(world.upstream.url),
  })
  const query = authorizeQuery(clientId, { redirect_uri: 'https://app.example/cb' })
  await expectError(await ask(stricter, query), 400, 'invalid_request')
})

test.each<[string, Record<string, string>, string]>([
  ['plain PKCE', { code_challenge_method: 'plain' }, 'invalid_request'],
  ['no method', { code_challenge_method: '' }, 'invalid_request'],
  ['no PKCE', { code_challenge: '', code_challenge_method: '' }, 'invalid_request'],
  ['a malformed challenge', { code_challenge: 'short' }, 'invalid_request'],
  ['the implicit flow', { response_type: 'token' }, 'unsupported_response_type'],
  ['a token for another resource', { resource: 'https://other.example/mcp' }, 'invalid_target'],
  ['a scope with quotes', { scope: 'a "b"' }, 'invalid_scope'],
  ['a scope in other letters', { scope: 'agent:\u202efoo:call' }, 'invalid_scope'],
  ['more scopes than a person reads', { scope: 'a '.repeat(101) }, 'invalid_scope'],
])('refuses %s with an error to the client', async (_what, more, error) => {
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

test('accepts a state once, and not after it expired', async () => {
  await using world = await start()
  const clientId = await register(world.one)
  const state = await begin(world.one, clientId)
  expect((await comeBack(world.one, state)).status).toBe(302)
  await expectPage(await comeBack(world.other, state), REFUSED)
  const late = await begin(world.one, clientId)
  world.time.now += 600_001
  await expectPage(await comeBack(world.one, late), REFUSED)
  await expectPage(await comeBack(world.one, 'made-up'), REFUSED)
  expect(world.upstream.asked).toHaveLength(2) // nobody was asked for a state that is not good
})

test('accepts one of two callbacks with the same state at once', async () => {
  await using world = await start()
  const state = await begin(world.one, await register(world.one))
  const both = await Promise.all([comeBack(world.one, state), comeBack(world.other, state)])
  expect(both.map(({ status }) => `${status}`).toSorted()).toEqual(['302', '400'])
})

test('tells the client that the user did not sign in, without details', async () => {
  await using world = await start()
  const state = await begin(world.one, await register(world.one))
  const back = locationOf(
    await comeBack(world.one, state, { more: '&error=consent_required&error_description=x' }),
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
  ['does not name the user', { user: {} }, 502],
  ['sends a too large answer', { user: { sub: 'ann', x: 'x'.repeat(300_000) } }, 502],
])(
  'answers server_error and reports the details when the identity service %s',
  async (_what, upstream, status) => {
    await using world = await start()
    const state = await begin(world.one, await register(world.one))
    Object.assign(world.upstream, upstream)
    const answer = await comeBack(world.one, state)
    await expectError(answer, status, 'server_error')
    expect(answer.headers.has('retry-after')).toBe(status === 503)
    expect(world.errors).toHaveLength(1)
    expect(String(world.errors[0])).not.toContain('upstream-code')
  },
)

test('does not follow a redirect of the identity service, because the request holds a credential', async () => {
  const asked: string[] = []
  await using server = await startTestServer(({ url = '' }, response) => {
    asked.push(url.split('?')[0] ?? '')
    response.writeHead(307, { location: '/elsewhere' }).end()
  }, '')
  await using world = await start({ identity: identityAt(server.url) })
  const state = await begin(world.one, await register(world.one))
  await expectError(await comeBack(world.one, state), 503, 'server_error')
  expect(asked).toEqual(['/gateway-oauth/exchange'])
})

test('stops waiting for the identity service after its time limit', async () => {
  const late = new AbortController()
  await using server = await startTestServer(() => {
    late.abort(new DOMException('Too late', 'TimeoutError'))
  }, '')
  using _ = vi.spyOn(AbortSignal, 'timeout').mockReturnValue(late.signal)
  await using world = await start({ identity: identityAt(server.url) })
  const state = await begin(world.one, await register(world.one))
  await expectError(await comeBack(world.one, state), 503, 'server_error')
})

test('answers 500 when a function of the operator throws', async () => {
  await using world = await start({
    scopes: () => {
      throw new Error('a bug in a mapping')
    },
  })
  const state = await begin(world.one, await register(world.one))
  await expectError(await comeBack(world.one, state), 500, 'server_error')
})

test('grants the requested scopes that the user has', async () => {
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

test('ends access after an hour at most, whatever the identity service says', async () => {
  await using world = await start()
  world.upstream.expiresIn = 86_400
  const { access_token, expires_in } = await tokensOf(world.one, await register(world.one))
  expect(expires_in).toBe(3600)
  world.time.now += 3_599_999
  await expect(callerOf(world.one, access_token)).resolves.toHaveProperty('id')
  world.time.now += 1
  await expect(callerOf(world.one, access_token)).resolves.toMatchObject({ status: 401 })
})

test('revokes the tokens of a code that is used twice', async () => {
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

test('refuses an expired code', async () => {
  await using world = await start()
  const clientId = await register(world.one)
  const code = await codeOf(world.one, clientId)
  world.time.now += 300_001
  await expectError(await post(world.one, exchangeOf(clientId, code)), 400, 'invalid_grant')
})

test('names the error for other grant types and malformed requests', async () => {
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

test('renews expired access, for the client of the token only', async () => {
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
  const other = { ...refresh, refresh_token: after.refresh_token, client_id: 'somebody-else' }
  await expectError(await post(world.one, other), 400, 'invalid_grant')
})

test.each<[string, Partial<Upstream>, [number, string]]>([
  ['refuses the token', { status: 400 }, [400, 'invalid_grant']],
  ['fails', { status: 500 }, [502, 'server_error']],
  ['is down', { isDown: true }, [503, 'server_error']],
  ['does not name the user', { user: {} }, [502, 'server_error']],
  ['names another user', { user: { sub: 'bob' } }, [400, 'invalid_grant']],
])('answers a renewal when the identity service %s', async (_what, upstream, [status, error]) => {
  await using world = await start()
  const clientId = await register(world.one)
  const { refresh_token } = await tokensOf(world.one, clientId)
  const refresh = { grant_type: 'refresh_token', client_id: clientId, refresh_token }
  Object.assign(world.upstream, upstream)
  await expectError(await post(world.one, refresh), status, error)
  Object.assign(world.upstream, { status: 200, isDown: false, user: { sub: 'ann' } })
  // After an outage nobody has to sign in again.
  expect((await post(world.one, refresh)).status).toBe(status === 400 ? 400 : 200)
})

test('renews with no more scopes than before, and than the user has now', async () => {
  let allowed: readonly string[] = ['a', 'b']
  await using world = await start({ scopes: () => allowed })
  const clientId = await register(world.one)
  const signedIn = async (scope: string): Promise<Tokens> => {
    const code = await codeOf(world.one, clientId, { scope })
    const answer = await post(world.one, exchangeOf(clientId, code))
    return (await answer.json()) as Tokens
  }
  const renewed = async ({ refresh_token }: Tokens): Promise<Tokens> => {
    const refresh = { grant_type: 'refresh_token', client_id: clientId, refresh_token }
    return (await (await post(world.other, refresh)).json()) as Tokens
  }
  const [none, one, all] = [await signedIn('c'), await signedIn('a'), await signedIn('')]
  expect([none.scope, one.scope, all.scope]).toEqual(['', 'a', 'a b'])
  expect((await renewed(none)).scope).toBe('')
  allowed = ['a', 'c']
  expect((await renewed(one)).scope).toBe('a')
  const fewer = await renewed(all)
  expect(fewer.scope).toBe('a')
  allowed = ['*']
  const everything = await signedIn('')
  expect(everything.scope).toBe('*')
  allowed = ['a']
  expect((await renewed(everything)).scope).toBe('a')
})

test('issues tokens for this gateway only', async () => {
  await using world = await start()
  const clientId = await register(world.one)
  const form = exchangeOf(clientId, await codeOf(world.one, clientId))
  const elsewhere = { ...form, resource: 'https://other.example/mcp' }
  await expectError(await post(world.one, elsewhere), 400, 'invalid_target')
  expect((await post(world.one, { ...form, resource: `${RESOURCE}/` })).status).toBe(200)
})

const renew = (auth: Authenticator, clientId: string, refresh_token: string): Promise<Response> =>
  post(auth, { grant_type: 'refresh_token', client_id: clientId, refresh_token })

test('revokes all tokens of a sign-in when a refresh token is used again after ten seconds', async () => {
  await using world = await start()
  const { one, other, time } = world
  const clientId = await register(one)
  const first = await tokensOf(one, clientId)
  const stranger = await tokensOf(one, clientId)
  const second = (await (await renew(other, clientId, first.refresh_token)).json()) as Tokens
  await expect(callerOf(one, second.access_token)).resolves.toHaveProperty('id')
  time.now += 10_000
  await expectError(await renew(other, clientId, first.refresh_token), 400, 'invalid_grant')
  for (const { access_token } of [first, second]) {
    await expect(callerOf(other, access_token)).resolves.toMatchObject({ status: 401 })
  }
  await expectError(await renew(other, clientId, second.refresh_token), 400, 'invalid_grant')
  // Another sign-in of the same user at the same client is another family.
  await expect(callerOf(one, stranger.access_token)).resolves.toHaveProperty('id')
  expect((await renew(other, clientId, stranger.refresh_token)).status).toBe(200)
})

test('gives the same tokens to a client that renews twice within ten seconds, at any process', async () => {
  await using world = await start()
  const { one, other, store, time } = world
  const clientId = await register(one)
  const { refresh_token } = await tokensOf(one, clientId)
  const processes = [one, other, one, other]
  const answers = await Promise.all(
    processes.map(async (auth) => {
      const answer = await renew(auth, clientId, refresh_token)
      expect([answer.status, answer.headers.get('cache-control')]).toEqual([200, 'no-store'])
      return (await answer.json()) as Tokens
    }),
  )
  const [tokens] = answers
  if (!tokens) throw new Error('No answer')
  expect(answers).toEqual(processes.map(() => tokens))
  time.now += 9999
  expect(await (await renew(other, clientId, refresh_token)).json()).toEqual(tokens)
  expect(world.upstream.asked.filter((each) => each === 'POST /refresh_token')).toHaveLength(1)
  const kept = JSON.stringify(await store.records.list(''))
  for (const secret of [tokens.access_token, tokens.refresh_token, refresh_token]) {
    expect(kept).not.toContain(secret)
  }
  await expect(callerOf(one, tokens.access_token)).resolves.toHaveProperty('id')
  expect((await renew(one, clientId, tokens.refresh_token)).status).toBe(200)
})

test.each([
  ['before', 0],
  ['after', 1],
])('revokes all tokens when another client has the refresh token, %s its use', async (_, uses) => {
  await using world = await start()
  const { one, other } = world
  const clientId = await register(one)
  const first = await tokensOf(one, clientId)
  const tokens = [first]
  for (let n = 0; n < uses; n++) {
    tokens.push((await (await renew(one, clientId, first.refresh_token)).json()) as Tokens)
  }
  const thief = await register(one)
  await expectError(await renew(other, thief, first.refresh_token), 400, 'invalid_grant')
  for (const { access_token } of tokens) {
    await expect(callerOf(one, access_token)).resolves.toMatchObject({ status: 401 })
  }
  // The stored answer has revoked tokens only.
  await expectError(await renew(one, clientId, first.refresh_token), 400, 'invalid_grant')
})

test('asks to try again while the first use of a refresh token has no answer', async () => {
  const asked = deferred()
  const answer = deferred<Identity>()
  const identity: IdentityService = {
    loginUrl: ({ state }) =>
      `https://login.example/login?state=${state}&gateway_uri=${ORIGIN}/oauth/callback`,
    exchange: async () => ({ claims: { sub: 'ann' }, refreshToken: 'upstream' }),
    refresh: () => {
      asked.resolve()
      return answer.promise
    },
  }
  await using world = await start({ identity })
  const { one, other } = world
  const clientId = await register(one)
  const { refresh_token } = await tokensOf(one, clientId)
  const first = renew(one, clientId, refresh_token)
  await asked.promise
  const startedAt = performance.now()
  const now = vi.spyOn(performance, 'now').mockReturnValueOnce(startedAt)
  now.mockReturnValue(startedAt + 5000)
  const second = await renew(other, clientId, refresh_token)
  now.mockRestore()
  await expectError(second, 503, 'temporarily_unavailable')
  expect(second.headers.get('retry-after')).toBe('5')
  answer.resolve({ claims: { sub: 'ann' }, refreshToken: 'upstream-2' })
  const tokens: unknown = await (await first).json()
  expect(await (await renew(other, clientId, refresh_token)).json()).toEqual(tokens)
})

test('does not accept tokens, codes and states of a gateway with another resource', async () => {
  await using world = await start()
  const { one, store, time, upstream } = world
  const elsewhere = oauthFacade({
    store,
    resource: 'https://other.example/mcp',
    identity: identityAt(upstream.url),
    now: () => time.now,
  })
  const clientId = await register(one)
  const tokens = await tokensOf(one, clientId)
  await expect(callerOf(elsewhere, tokens.access_token)).resolves.toMatchObject({ status: 401 })
  await expectError(await renew(elsewhere, clientId, tokens.refresh_token), 400, 'invalid_grant')
  const code = await codeOf(one, clientId)
  await expectError(await post(elsewhere, exchangeOf(clientId, code)), 400, 'invalid_grant')
  await expectPage(await comeBack(elsewhere, await begin(one, clientId)), REFUSED)
  // Nothing is revoked or used up by the attempts.
  await expect(callerOf(one, tokens.access_token)).resolves.toHaveProperty('id')
  expect((await renew(one, clientId, tokens.refresh_token)).status).toBe(200)
  expect((await post(one, exchangeOf(clientId, code))).status).toBe(200)
})
