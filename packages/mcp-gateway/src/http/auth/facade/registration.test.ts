import { expect, test } from 'vitest'

import {
  ask,
  expectError,
  REDIRECT,
  register,
  registration,
  start,
} from '../../../../test/facade-world.ts'

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

test('all addresses together cannot fill the store, either', async () => {
  await using world = await start()
  const from = async (address: string): Promise<number> => {
    const body = JSON.stringify({ redirect_uris: [REDIRECT] })
    return (await ask(world.one, '/oauth/register', { method: 'POST', body, address })).status
  }
  for (let n = 0; n < 120; n++) expect(await from(`192.0.2.${n}`)).toBe(201)
  expect(await from('192.0.2.120')).toBe(429)
})
