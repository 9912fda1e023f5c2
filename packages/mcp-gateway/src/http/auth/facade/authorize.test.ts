import { expect, test } from 'vitest'

import {
  ask,
  authorizeQuery,
  expectError,
  locationOf,
  ORIGIN,
  register,
  RESOURCE,
  start,
} from '../../../../test/facade-world.ts'
import { facadeAuth } from './facade-auth.ts'

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
