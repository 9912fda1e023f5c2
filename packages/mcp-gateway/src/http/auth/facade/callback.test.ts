import { startTestServer } from '@x/mcp-testing'
import { expect, test } from 'vitest'

import {
  begin,
  callerOf,
  codeOf,
  comeBack,
  exchangeOf,
  expectError,
  locationOf,
  ORIGIN,
  post,
  register,
  start,
  type Tokens,
  tokensOf,
  type Upstream,
} from '../../../../test/facade-world.ts'

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
  ['says more than anybody reads', { user: { sub: 'ann', x: 'x'.repeat(300_000) } }, 502],
])('an identity service that %s: a terse answer, and a report', async (_what, upstream, status) => {
  await using world = await start()
  const state = await begin(world.one, await register(world.one))
  Object.assign(world.upstream, upstream)
  const answer = await comeBack(world.one, state)
  await expectError(answer, status, 'server_error')
  expect(answer.headers.has('retry-after')).toBe(status === 503)
  expect(world.errors).toHaveLength(1)
  expect(String(world.errors[0])).not.toContain('upstream-code')
})

test('an identity service that sends the gateway elsewhere is not followed: what it asks with is a credential', async () => {
  const asked: string[] = []
  await using server = await startTestServer(({ url = '' }, response) => {
    asked.push(url.split('?')[0] ?? '')
    response.writeHead(307, { location: '/elsewhere' }).end()
  }, '')
  await using world = await start({ upstreamUrl: server.url })
  const state = await begin(world.one, await register(world.one))
  await expectError(await comeBack(world.one, state), 503, 'server_error')
  expect(asked).toEqual(['/gateway-oauth/exchange'])
})

test('an identity service that never answers ends after its time', async () => {
  await using server = await startTestServer(() => undefined, '')
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

test('access lasts an hour at most, whatever the identity service says', async () => {
  await using world = await start()
  world.upstream.expiresIn = 86_400
  const { access_token, expires_in } = await tokensOf(world.one, await register(world.one))
  expect(expires_in).toBe(3600)
  world.time.now += 3_599_999
  await expect(callerOf(world.one, access_token)).resolves.toHaveProperty('id')
  world.time.now += 1
  await expect(callerOf(world.one, access_token)).resolves.toMatchObject({ status: 401 })
})
