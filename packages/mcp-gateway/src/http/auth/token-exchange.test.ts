import { inspect } from 'node:util'
import { expect, test } from 'vitest'
import { fetchForUser, type UserCredentials } from '../../internal/user-credentials.ts'
import { tokenExchange, type TokenExchangeOptions } from './token-exchange.ts'

const ORDERS = 'https://orders.example/mcp'
const target = { server: 'orders', resource: ORDERS }

const principalOf = (id: string) => ({ id, scopes: [], isAnonymous: false, claims: {} })

/** A token that says when it ends and whom it is for. Nobody checks its signature here. */
function jwt(claims: object): string {
  const parts = [{ alg: 'ES256' }, claims].map((part) =>
    Buffer.from(JSON.stringify(part)).toString('base64url'),
  )
  return [...parts, 'c2lnbmF0dXJl'].join('.')
}

interface Endpoint {
  readonly forms: Record<string, string>[]
  readonly authorizations: (string | null)[]
  /** Answers the nth request, from 1. */
  answer: (nth: number) => Response | Promise<Response>
  now: number
  for(user: string, token?: string): UserCredentials
}

const given = (nth: number, over: object = {}): Response =>
  Response.json({ access_token: `token-${nth}`, token_type: 'Bearer', expires_in: 300, ...over })

function endpoint(options: Partial<TokenExchangeOptions> = {}): Endpoint {
  const world: Endpoint = {
    forms: [],
    authorizations: [],
    answer: given,
    now: 1_000_000,
    for: (user, token = `subject-of-${user}`) => provider.credentialsFor(principalOf(user), token),
  }
  const provider = tokenExchange({
    tokenUrl: 'https://login.example/token',
    clientId: 'gateway',
    clientSecret: 's:cret',
    targets: { [ORDERS]: { scopes: ['orders.read'] } },
    now: () => world.now,
    fetch: async (_url, init) => {
      world.forms.push(init?.body instanceof URLSearchParams ? Object.fromEntries(init.body) : {})
      world.authorizations.push(new Headers(init?.headers).get('authorization'))
      return world.answer(world.forms.length)
    },
    ...options,
  })
  return world
}

const failure = (code: string, audience = ORDERS) => expect.objectContaining({ code, audience })

test('asks for a token of the server with the token of the caller (RFC 8693)', async () => {
  const world = endpoint()
  expect(await world.for('ada').token(target)).toEqual({
    accessToken: 'token-1',
    expiresAt: 1_300_000,
  })
  expect(world.forms).toEqual([
    {
      grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
      subject_token: 'subject-of-ada',
      subject_token_type: 'urn:ietf:params:oauth:token-type:access_token',
      requested_token_type: 'urn:ietf:params:oauth:token-type:access_token',
      resource: ORDERS,
      scope: 'orders.read',
    },
  ])
  expect(world.authorizations).toEqual([`Basic ${btoa('gateway:s%3Acret')}`])
})

test('asks Keycloak by the client id of the server, and without a resource', async () => {
  const world = endpoint({ profile: 'keycloak', targets: { [ORDERS]: { audience: 'orders' } } })
  await world.for('ada').token(target)
  expect(world.forms[0]).toMatchObject({ audience: 'orders' })
  expect(world.forms[0]).not.toHaveProperty('resource')
})

test('asks Auth0 by audience, with the secret in the form', async () => {
  const world = endpoint({ profile: 'auth0', targets: { [ORDERS]: {} } })
  await world.for('ada').token(target)
  expect(world.forms[0]).toMatchObject({ audience: ORDERS, client_secret: 's:cret' })
  expect(world.authorizations).toEqual([null])
})

test('asks Entra on behalf of the user, by scope', async () => {
  const world = endpoint({ profile: 'entra', targets: { 'api://orders': {} } })
  world.answer = (nth) => given(nth, { access_token: jwt({ aud: 'a-client-id' }) })
  await world.for('ada').token({ ...target, resource: 'api://orders' })
  expect(world.forms[0]).toEqual({
    grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer',
    assertion: 'subject-of-ada',
    requested_token_use: 'on_behalf_of',
    scope: 'api://orders/.default',
    client_id: 'gateway',
    client_secret: 's:cret',
  })
})

test('exchanges an ID-JAG at the authorization server of the target', async () => {
  const authorizationServer = {
    tokenUrl: 'https://as.example/token',
    clientId: 'g2',
    clientSecret: 'x',
  }
  const targets = { [ORDERS]: { audience: 'https://as.example', authorizationServer } }
  const world = endpoint({ profile: 'id-jag', targets })
  world.answer = (nth) => (nth === 1 ? given(1, { token_type: 'N_A' }) : given(2))
  expect(await world.for('ada').token(target)).toMatchObject({ accessToken: 'token-2' })
  expect(world.forms).toMatchObject([
    {
      requested_token_type: expect.stringMatching(/id-jag$/),
      audience: 'https://as.example',
      resource: ORDERS,
    },
    { grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer', assertion: 'token-1' },
  ])
})

test('caches a token until shortly before its end, and asks once for all that wait', async () => {
  const world = endpoint()
  const ada = world.for('ada')
  const all = await Promise.all([
    ada.token(target),
    ada.token(target),
    world.for('ada').token(target),
  ])
  expect(new Set(all.map(({ accessToken }) => accessToken))).toEqual(new Set(['token-1']))
  world.now += 269_999
  await ada.token({ ...target, resource: `${ORDERS}/` })
  expect(world.forms).toHaveLength(1)
  world.now += 1
  expect(await ada.token(target)).toMatchObject({ accessToken: 'token-2' })
})

test('shares no token between users, sign-ins of a user, or sets of scopes', async () => {
  const world = endpoint({ targets: { [ORDERS]: { scopes: ['orders.read', 'orders.write'] } } })
  const tokens = [
    await world.for('ada').token(target),
    await world.for('bob', 'subject-of-ada').token(target),
    await world.for('ada', 'another-sign-in').token(target),
    await world.for('ada').token({ ...target, scopes: ['orders.write'] }),
  ]
  expect(new Set(tokens.map(({ accessToken }) => accessToken)).size).toBe(4)
})

test('uses no token longer than the token of the caller', async () => {
  const world = endpoint()
  const ada = world.for('ada', jwt({ exp: 1_100 }))
  await ada.token(target)
  world.now = 1_070_000
  await ada.token(target)
  expect(world.forms).toHaveLength(2)
  world.now = 1_100_000
  await expect(ada.token(target)).rejects.toEqual(failure('TOKEN_EXPIRED'))
  expect(world.forms).toHaveLength(2)
})

test('gets another token after a refusal, once for all that were refused', async () => {
  const world = endpoint()
  const ada = world.for('ada')
  const { accessToken } = await ada.token(target)
  ada.rejected({ ...target, accessToken })
  const second = await ada.token(target)
  ada.rejected({ ...target, accessToken }) // a late refusal of the first one
  expect(await ada.token(target)).toEqual(second)
  expect(world.forms).toHaveLength(2)
})

test('goes on for others when one of those that wait gives up', async () => {
  const world = endpoint()
  const answer = Promise.withResolvers<Response>()
  world.answer = () => answer.promise
  const leaving = new AbortController()
  const ada = world.for('ada')
  const [left, stayed] = [ada.token({ ...target, signal: leaving.signal }), ada.token(target)]
  leaving.abort(new Error('left'))
  await expect(left).rejects.toThrow('left')
  answer.resolve(given(1))
  await expect(stayed).resolves.toMatchObject({ accessToken: 'token-1' })
})

const refusing = (error: string, status = 400) =>
  Response.json({ error, error_description: 'subject-of-ada' }, { status })

test.each([
  ['invalid_target', () => refusing('invalid_target'), 'WRONG_AUDIENCE'],
  [
    'a token for another audience',
    () => given(1, { access_token: jwt({ aud: 'https://other.example' }) }),
    'WRONG_AUDIENCE',
  ],
  ['invalid_grant', () => refusing('invalid_grant'), 'TOKEN_EXPIRED'],
  ['access_denied', () => refusing('access_denied', 403), 'EXCHANGE_REFUSED'],
  ['an unknown client', () => refusing('invalid_client', 401), 'EXCHANGE_REFUSED'],
  ['an answer without a token', () => Response.json({}), 'EXCHANGE_REFUSED'],
  ['an answer that is no bearer token', () => given(1, { token_type: 'mac' }), 'EXCHANGE_REFUSED'],
  ['an error of the server', () => new Response('subject-of-ada', { status: 502 }), 'UNAVAILABLE'],
  ['a busy server', () => refusing('slow_down', 429), 'UNAVAILABLE'],
  ['a server that is away', () => Promise.reject(new TypeError('fetch failed')), 'UNAVAILABLE'],
  ['too long an answer', () => new Response('x'.repeat(70_000)), 'UNAVAILABLE'],
])('names the audience for %s, and shows no token', async (_what, answer, code) => {
  const world = endpoint()
  world.answer = answer
  const error: unknown = await world
    .for('ada')
    .token(target)
    .catch((reason: unknown) => reason)
  expect(error).toEqual(failure(code))
  expect(inspect(error, { depth: 9, showHidden: true })).toContain(ORDERS)
  expect(inspect(error, { depth: 9, showHidden: true })).not.toContain('subject-of-ada')
})

test('asks again after a failure, and for a refusal by rules only after some time', async () => {
  const world = endpoint()
  const ada = world.for('ada')
  world.answer = (nth) =>
    nth === 1 ? new Response(null, { status: 503 }) : refusing('access_denied')
  await expect(ada.token(target)).rejects.toEqual(failure('UNAVAILABLE'))
  await expect(ada.token(target)).rejects.toEqual(failure('EXCHANGE_REFUSED'))
  world.answer = given
  await expect(ada.token(target)).rejects.toEqual(failure('EXCHANGE_REFUSED'))
  expect(world.forms).toHaveLength(2)
  world.now += 10_000
  await expect(ada.token(target)).resolves.toMatchObject({ accessToken: 'token-3' })
})

test('requests no token for a server that is no target', async () => {
  const world = endpoint()
  const other = { server: 'evil', resource: 'https://evil.example/mcp' }
  await expect(world.for('ada').token(other)).rejects.toEqual(
    failure('WRONG_AUDIENCE', other.resource),
  )
  expect(world.forms).toEqual([])
})

test.each([['orders.read'], []])(
  'requests no scopes that the target does not have (it has: %s)',
  async (...scopes) => {
    const world = endpoint({ targets: { [ORDERS]: { scopes } } })
    const asked = world.for('ada').token({ ...target, scopes: ['orders.read', 'admin'] })
    await expect(asked).rejects.toEqual(failure('EXCHANGE_REFUSED'))
    await expect(asked).rejects.toThrow('admin')
    expect(world.forms).toEqual([])
  },
)

test('leaves the scopes to the agent if the target has none', async () => {
  const world = endpoint({ targets: { [ORDERS]: {} } })
  await world.for('ada').token({ ...target, scopes: ['orders.write'] })
  expect(world.forms).toMatchObject([{ scope: 'orders.write' }])
})

test.each([
  [ORDERS, `${ORDERS}/`],
  [`${ORDERS}/`, ORDERS],
  [ORDERS, 'HTTPS://Orders.example:443/mcp'],
  ['HTTPS://Orders.example:443/mcp', ORDERS],
  ['api://orders', 'api://orders/'],
  ['5e1c', '5e1c'],
])('asks for %s by that name, for an agent that writes %s', async (configured, resource) => {
  const world = endpoint({ targets: { [configured]: {} } })
  world.answer = () => given(1, { access_token: jwt({ aud: resource }) })
  const ada = world.for('ada')
  await ada.token({ ...target, resource })
  await ada.token({ ...target, resource: configured })
  expect(world.forms).toMatchObject([{ resource: configured }])
})

test('shows no token in JSON or on a console', async () => {
  const ada = endpoint().for('ada')
  await ada.token(target)
  const shown = JSON.stringify(ada) + inspect(ada, { depth: 9, showHidden: true })
  expect(shown).not.toMatch(/subject-of-ada|token-1/)
})

test.each([
  [{ tokenUrl: 'http://login.example/token' }, 'https'],
  [{ profile: 'okta' }, 'profile'],
  [{ profile: 'id-jag', targets: { [ORDERS]: {} } }, 'authorizationServer'],
  [{ clientSecret: undefined }, 'clientSecret'],
])('refuses %j', (over, text) => {
  const options: Record<string, unknown> = { ...over }
  expect(() => endpoint(options)).toThrow(text)
})

test('sends a request again once after 401, with another token', async () => {
  const world = endpoint()
  const sent: (string | null)[] = []
  const fetch = async (_input: unknown, init?: RequestInit): Promise<Response> => {
    sent.push(new Headers(init?.headers).get('authorization'))
    return new Response(null, { status: 401 })
  }
  const send = fetchForUser(fetch, { credentials: world.for('ada'), target })
  expect((await send(ORDERS, { method: 'POST', body: '{}' })).status).toBe(401)
  expect(sent).toEqual(['Bearer token-1', 'Bearer token-2'])
})

test('sends no request without a user', async () => {
  const send = fetchForUser(() => Promise.reject(new Error('sent')), {
    credentials: undefined,
    target,
  })
  await expect(send(ORDERS)).rejects.toEqual(failure('NO_USER'))
})
