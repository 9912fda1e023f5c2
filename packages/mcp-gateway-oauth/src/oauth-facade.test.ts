import { GatewayError, MemoryGatewayStore } from '@x/mcp-gateway'
import { expect, test } from 'vitest'
import {
  ask,
  begin,
  callerOf,
  codeOf,
  comeBack,
  exchangeOf,
  expectError,
  identityAt,
  locationOf,
  ORIGIN,
  post,
  REDIRECT,
  register,
  RESOURCE,
  start,
  tokensOf,
} from '../test/oauth-world.ts'
import type { Tokens } from '../test/oauth-world.ts'
import { oauthFacade } from './oauth-facade.ts'
import { solaceIdentity } from './solace-identity.ts'

test('signs a user in, with each step at another process', async () => {
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

test('stores no secret in a form that a reader of the store could use', async () => {
  await using world = await start()
  const clientId = await register(world.one)
  const state = await begin(world.one, clientId)
  const code = await codeOf(world.one, clientId)
  const tokens = await tokensOf(world.one, clientId)
  const kept = JSON.stringify(await world.store.records.list(''))
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

test('publishes its metadata (RFC 8414) and that of the resource (RFC 9728)', async () => {
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
  const refused = (await callerOf(world.one, 'made-up')) as Response
  const [, url = ''] =
    /resource_metadata="([^"]+)"/.exec(refused.headers.get('www-authenticate') ?? '') ?? []
  expect(url).toBe(`${ORIGIN}/.well-known/oauth-protected-resource/mcp`)
  const resource = await ask(world.one, new URL(url).pathname)
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
  ['authorize', 'GET', 60],
  ['callback', 'GET', 60],
  ['token', 'POST', 120],
])(
  'limits the requests of one address to /oauth/%s (%s) to %i per minute',
  async (name, method, most) => {
    await using world = await start()
    const from = async (address: string): Promise<Response> =>
      ask(world.one, `/oauth/${name}`, { method, address })
    for (let n = 0; n < most; n++) expect((await from('192.0.2.1')).status).toBe(400)
    const refused = await from('192.0.2.1')
    expect(refused.status).toBe(429)
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
    expect((await from('192.0.2.2')).status).toBe(400)
  },
)

test('answers 503 while the store is down', async () => {
  await using world = await start()
  const away = (): Promise<never> => Promise.reject(new GatewayError('UNAVAILABLE', 'no store'))
  const auth = oauthFacade({
    store: {
      rates: { take: away },
      records: Object.assign(Object.create(world.store.records), { get: away }),
    },
    resource: RESOURCE,
    identity: identityAt(world.upstream.url),
  })
  const answer = await post(auth, { grant_type: 'refresh_token' })
  await expectError(answer, 503, 'server_error')
  expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0)
  await expect(callerOf(auth, 'any')).resolves.toMatchObject({ status: 503 })
})

const VALID = {
  resource: RESOURCE,
  store: new MemoryGatewayStore(),
  identity: identityAt('http://localhost:8050'),
}

test.each([
  [{ ...VALID, resource: 'http://gateway.example/mcp' }, 'https'],
  [{ ...VALID, identity: undefined }, '"identity" is missing'],
  [
    { ...VALID, identity: { loginUrl: () => ORIGIN } },
    'an object with loginUrl() and exchange() and refresh()',
  ],
  [{ ...VALID, store: undefined }, '"store" is missing'],
  [{ ...VALID, identiy: {} }, 'Did you mean "identity"?'],
  [{ ...VALID, scopes: '*' }, '"scopes" must be a function or a list'],
])('refuses unsafe and wrong options: %#', (options, message) => {
  expect(() => oauthFacade(options as never)).toThrow(
    expect.objectContaining({ code: 'CONFIG', message: expect.stringContaining(message) }),
  )
})

test.each([
  [{ url: 'http://identity.example', provider: 'azure' }, 'https'],
  [{ url: 'https://identity.example' }, '"provider" is missing'],
  [{ provider: 'azure' }, '"url" is missing'],
])('refuses unsafe and wrong options of the preset: %o', (options, message) => {
  expect(() => solaceIdentity(options as never)).toThrow(
    expect.objectContaining({ code: 'CONFIG', message: expect.stringContaining(message) }),
  )
})
