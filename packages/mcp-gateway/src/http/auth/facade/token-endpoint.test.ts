import { expect, test } from 'vitest'

import {
  ask,
  callerOf,
  CHALLENGE,
  codeOf,
  exchangeOf,
  expectError,
  ORIGIN,
  post,
  register,
  RESOURCE,
  start,
  type Tokens,
  tokensOf,
  type Upstream,
} from '../../../../test/facade-world.ts'

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
  ['does not say who it is', { user: {} }, [502, 'server_error']],
])('a renewal when the identity service %s', async (_what, upstream, [status, error]) => {
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

test('a renewal gives no more than there was, and no more than somebody may by then', async () => {
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

test('a token is for this gateway, or for none', async () => {
  await using world = await start()
  const clientId = await register(world.one)
  const form = exchangeOf(clientId, await codeOf(world.one, clientId))
  const elsewhere = { ...form, resource: 'https://other.example/mcp' }
  await expectError(await post(world.one, elsewhere), 400, 'invalid_target')
  expect((await post(world.one, { ...form, resource: `${RESOURCE}/` })).status).toBe(200)
})

test('somebody else after a renewal is nobody', async () => {
  await using world = await start()
  const clientId = await register(world.one)
  const { refresh_token } = await tokensOf(world.one, clientId)
  world.upstream.user = { sub: 'bob' }
  const refresh = { grant_type: 'refresh_token', client_id: clientId, refresh_token }
  await expectError(await post(world.one, refresh), 400, 'invalid_grant')
})

test('a refresh token that is used again revokes all tokens of its sign-in', async () => {
  await using world = await start()
  const clientId = await register(world.one)
  const first = await tokensOf(world.one, clientId)
  const renew = (refresh_token: string): Promise<Response> => {
    return post(world.other, { grant_type: 'refresh_token', client_id: clientId, refresh_token })
  }
  const stranger = await tokensOf(world.one, clientId)
  const second = (await (await renew(first.refresh_token)).json()) as Tokens
  await expect(callerOf(world.one, second.access_token)).resolves.toHaveProperty('id')
  await expectError(await renew(first.refresh_token), 400, 'invalid_grant')
  for (const { access_token } of [first, second]) {
    await expect(callerOf(world.other, access_token)).resolves.toMatchObject({ status: 401 })
  }
  await expectError(await renew(second.refresh_token), 400, 'invalid_grant')
  // Another sign-in of the same user at the same client is another family.
  await expect(callerOf(world.one, stranger.access_token)).resolves.toHaveProperty('id')
  expect((await renew(stranger.refresh_token)).status).toBe(200)
})

test('of two uses of a refresh token at once, none leaves a token that works', async () => {
  await using world = await start()
  const clientId = await register(world.one)
  const { refresh_token } = await tokensOf(world.one, clientId)
  const refresh = { grant_type: 'refresh_token', client_id: clientId, refresh_token }
  const answers = await Promise.all([post(world.one, refresh), post(world.other, refresh)])
  for (const answer of answers) {
    const { access_token } = (await answer.json()) as Partial<Tokens>
    if (access_token === undefined) continue
    await expect(callerOf(world.one, access_token)).resolves.toMatchObject({ status: 401 })
  }
})
