import { expect, test } from 'vitest'
import {
  ask,
  authorizeQuery,
  codeOf,
  exchangeOf,
  expectError,
  post,
  REDIRECT,
  register,
  start,
} from '../test/oauth-world.ts'

test('keeps a client while people sign in with it, and an unused one for a day', async () => {
  await using world = await start()
  const used = await register(world.one)
  const unused = await register(world.one)
  await codeOf(world.one, used)
  world.time.now += 86_400_001
  await expectError(await ask(world.one, authorizeQuery(unused)), 401, 'invalid_client')
  world.time.now += 80 * 86_400_000
  await codeOf(world.one, used)
  world.time.now += 80 * 86_400_000
  expect((await ask(world.one, authorizeQuery(used))).status).toBe(200)
})

test('reads the metadata document of a client, and accepts any port on loopback', async () => {
  const id = 'https://app.example/client.json'
  const documents: Record<string, unknown> = {
    [id]: { client_id: id, redirect_uris: ['http://127.0.0.1/callback', 'https://evil.example/'] },
    'https://long.example/': {
      client_id: 'https://long.example/',
      redirect_uris: [REDIRECT],
      x: 'x'.repeat(70_000),
    },
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
  await expectError(await at('https://long.example/', REDIRECT), 401, 'invalid_client')
  await expectError(await at('https://gone.example/', REDIRECT), 401, 'invalid_client')
})

test('does not fetch a metadata document from an address that is not public', async () => {
  await using world = await start()
  await expectError(
    await ask(world.one, authorizeQuery('https://127.0.0.1/c')),
    401,
    'invalid_client',
  )
})

test.each([
  ['a user name', 'https://app.example@evil.example/client.json'],
  ['a password', 'https://:x@evil.example/client.json'],
  ['a change of direction', 'https://evil.example/\u202Enosj.tneilc'],
  ['a fragment', 'https://evil.example/client.json#https://app.example'],
  ['a backslash', 'https://evil.example\\@app.example/client.json'],
  ['more than 2048 characters', `https://evil.example/${'x'.repeat(2048)}`],
  ['no host', 'https://'],
])('does not fetch a metadata document from a URL with %s', async (_what, id) => {
  const fetched: unknown[] = []
  const guardedFetch = async (input: unknown): Promise<Response> => {
    fetched.push(input)
    return Response.json({ client_id: id, redirect_uris: [REDIRECT] })
  }
  await using world = await start({ guardedFetch })
  await expectError(await ask(world.one, authorizeQuery(id)), 401, 'invalid_client')
  expect(fetched).toEqual([])
})
