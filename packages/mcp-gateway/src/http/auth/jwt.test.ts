import type { ServerResponse } from 'node:http'
import { startTestServer } from '@x/mcp-testing'
import { SignJWT, exportJWK, generateKeyPair } from 'jose'
import type { JWK, JWTPayload } from 'jose'
import { expect, test, vi } from 'vitest'
import type { Authenticator } from './authenticator.ts'
import { jwtAuth } from './jwt.ts'
import type { JwtAuthOptions } from './jwt.ts'

const AUDIENCE = 'https://gateway.example/mcp'

type Claims = Omit<JWTPayload, 'exp'> & { exp?: number | 'never' }

interface Issuer extends AsyncDisposable {
  readonly issuer: string
  /** Paths that were asked for. */
  readonly asked: string[]
  /** Makes another key, which replaces the one before. */
  rotate(kid: string): Promise<void>
  tokenOf(claims?: Claims, header?: { kid?: string; typ?: string }): Promise<string>
  isDown: boolean
  metadata: object | undefined
  /** Answers in place of its documents, by path. */
  readonly inPlace: Map<string, (response: ServerResponse, issuer: string) => void>
}

/** An authorization server on a real port, as far as those who check its tokens see it. */
async function startIssuer(): Promise<Issuer> {
  const asked: string[] = []
  let keys: JWK[] = []
  let signWith = await generateKeyPair('ES256')
  let current = 'none'
  const state = { isDown: false, metadata: undefined as object | undefined }
  const inPlace: Issuer['inPlace'] = new Map()
  const server = await startTestServer((request, response) => {
    asked.push(request.url ?? '')
    if (state.isDown) return void response.destroy()
    const own = inPlace.get(request.url ?? '')
    if (own) return own(response, server.url)
    const documents: Record<string, object | undefined> = {
      '/realm/keys': { keys },
      '/realm/.well-known/openid-configuration': state.metadata ?? {
        issuer: server.url,
        jwks_uri: `${server.url}/keys`,
      },
    }
    const document = documents[request.url ?? '']
    response.writeHead(document ? 200 : 404, { 'content-type': 'application/json' })
    response.end(JSON.stringify(document ?? {}))
  }, '/realm')
  const issuer: Issuer = Object.assign(state, {
    issuer: server.url,
    asked,
    inPlace,
    rotate: async (kid: string) => {
      signWith = await generateKeyPair('ES256')
      current = kid
      keys = [{ ...(await exportJWK(signWith.publicKey)), kid, alg: 'ES256', use: 'sig' }]
    },
    tokenOf: (claims: Claims = {}, header = {}) => {
      const { exp, ...all } = {
        iss: server.url,
        aud: AUDIENCE,
        sub: 'ann',
        exp: inSeconds(600),
        ...claims,
      }
      return new SignJWT(exp === 'never' ? all : { ...all, exp })
        .setProtectedHeader({ alg: 'ES256', kid: current, ...header })
        .sign(signWith.privateKey)
    },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  })
  await issuer.rotate('k1')
  return issuer
}

const inSeconds = (seconds: number): number => Math.floor(Date.now() / 1000) + seconds

const authOf = (issuer: Issuer, options: Partial<JwtAuthOptions> = {}): Authenticator =>
  jwtAuth({ issuers: [{ issuer: issuer.issuer, audience: AUDIENCE }], ...options })

async function answerOf(auth: Authenticator, token: string): Promise<unknown> {
  const answer = await auth.authenticate({
    method: 'POST',
    url: AUDIENCE,
    headers: new Headers({ authorization: `Bearer ${token}` }),
  })
  return answer instanceof Response ? answer.status : answer
}

test('takes the caller and the scopes from the token', async () => {
  await using issuer = await startIssuer()
  const auth = authOf(issuer)
  const token = await issuer.tokenOf({ scope: 'agent:shop:call  agent:mail:call' })
  await expect(answerOf(auth, token)).resolves.toMatchObject({
    id: `${issuer.issuer}|ann`,
    scopes: ['agent:shop:call', 'agent:mail:call'],
    isAnonymous: false,
    claims: { sub: 'ann' },
  })
  await answerOf(auth, await issuer.tokenOf({ sub: 'bob' }))
  // Metadata where RFC 8414 has it, then where OpenID Connect has it, then the keys: once for all.
  expect(issuer.asked).toEqual([
    '/.well-known/oauth-authorization-server/realm',
    '/realm/.well-known/openid-configuration',
    '/realm/keys',
  ])
})

test('takes the caller and the scopes from configured claims', async () => {
  await using issuer = await startIssuer()
  const auth = authOf(issuer, { principalClaim: 'email', scopesClaim: 'roles' })
  const token = await issuer.tokenOf({ email: 'ann@example.org', roles: ['a', 7, ''] })
  await expect(answerOf(auth, token)).resolves.toMatchObject({
    id: `${issuer.issuer}|ann@example.org`,
    scopes: ['a'],
  })
  await expect(answerOf(auth, await issuer.tokenOf({ email: '' }))).resolves.toBe(401)
  await expect(answerOf(auth, await issuer.tokenOf())).resolves.toBe(401)
})

test.each<[string, Claims]>([
  ['for somebody else', { aud: 'https://other.example/mcp' }],
  ['for nobody', { aud: [] }],
  ['expired', { exp: inSeconds(-31) }],
  ['not valid yet', { nbf: inSeconds(60) }],
  ['of an unknown issuer', { iss: 'https://evil.example' }],
  ['without a subject', { sub: '' }],
  ['that never expires', { exp: 'never' }],
])('answers 401 for a token %s', async (_what, claims) => {
  await using issuer = await startIssuer()
  await expect(answerOf(authOf(issuer), await issuer.tokenOf(claims))).resolves.toBe(401)
})

test('accepts a clock that is 30 seconds off', async () => {
  await using issuer = await startIssuer()
  const token = await issuer.tokenOf({ exp: inSeconds(-20), nbf: inSeconds(20) })
  await expect(answerOf(authOf(issuer), token)).resolves.toHaveProperty('id')
})

test('answers 401 for a token that is unsigned, changed, or signed with a shared secret or another key', async () => {
  await using issuer = await startIssuer()
  const auth = authOf(issuer)
  const good = await issuer.tokenOf()
  const [header = '', payload = '', signature = ''] = good.split('.')
  const claims = { iss: issuer.issuer, aud: AUDIENCE, sub: 'ann', exp: inSeconds(600) }
  const none = `${Buffer.from('{"alg":"none"}').toString('base64url')}.${payload}.`
  const shared = await new SignJWT(claims)
    .setProtectedHeader({ alg: 'HS256', kid: 'k1' })
    .sign(Buffer.from('0123456789abcdef0123456789abcdef'))
  const other = await generateKeyPair('ES256')
  const foreign = await new SignJWT(claims)
    .setProtectedHeader({ alg: 'ES256', kid: 'k1' })
    .sign(other.privateKey)
  // What a token says of where its keys are is not asked, and keys that it brings are not believed.
  const own = await exportJWK(other.publicKey)
  const brought = await Promise.all(
    [{ jwk: own }, { jku: `${issuer.issuer}/evil` }, { kid: '../../keys', jwk: own }].map((more) =>
      new SignJWT(claims)
        .setProtectedHeader({ alg: 'ES256', kid: 'k1', ...more })
        .sign(other.privateKey),
    ),
  )
  const richer = Buffer.from(JSON.stringify({ ...claims, scope: '*' })).toString('base64url')
  const changed = [`${header}.${richer}.${signature}`, `${header}.${payload}.`, 'a.b.c', 'abc']
  for (const token of [none, shared, foreign, ...brought, ...changed]) {
    await expect(answerOf(auth, token)).resolves.toBe(401)
  }
  expect(issuer.asked).not.toContain('/realm/evil')
  await expect(answerOf(auth, good)).resolves.toHaveProperty('id')
})

test('finds a key that was added later, and refuses a key that was removed', async () => {
  await using issuer = await startIssuer()
  const auth = authOf(issuer)
  const old = await issuer.tokenOf()
  await expect(answerOf(auth, old)).resolves.toHaveProperty('id')
  await issuer.rotate('k2')
  await expect(answerOf(auth, await issuer.tokenOf())).resolves.toHaveProperty('id')
  await expect(answerOf(auth, old)).resolves.toBe(401)
})

const KEYS = '/realm/keys'

test('finds a new key within seconds of a storm of tokens with made-up keys', async () => {
  await using issuer = await startIssuer()
  let ms = 0
  const issuers = [{ issuer: issuer.issuer, audience: AUDIENCE, jwksUrl: `${issuer.issuer}/keys` }]
  const auth = authOf(issuer, { issuers, now: () => Date.now() + ms })
  await expect(answerOf(auth, await issuer.tokenOf())).resolves.toHaveProperty('id')
  const storm = async (count: number): Promise<void> => {
    for (let n = 0; n < count; n++) {
      const madeUp = await issuer.tokenOf({}, { kid: `made-up-${Math.random()}` })
      await expect(answerOf(auth, madeUp)).resolves.toBe(401)
    }
  }
  await storm(50)
  expect(issuer.asked.length).toBeLessThanOrEqual(14)
  await issuer.rotate('k2')
  ms += 5000
  await storm(3)
  await expect(answerOf(auth, await issuer.tokenOf())).resolves.toHaveProperty('id')
  // The keys are read at a steady rate, however long the storm lasts.
  for (let minute = 0; minute < 3; minute++) {
    const before = issuer.asked.length
    for (let n = 0; n < 12; n++) {
      ms += 5000
      await storm(3)
    }
    expect(issuer.asked.length - before).toBeLessThanOrEqual(13)
  }
})

test('reads the keys once for many tokens with unknown keys at once', async () => {
  await using issuer = await startIssuer()
  const issuers = [{ issuer: issuer.issuer, audience: AUDIENCE, jwksUrl: `${issuer.issuer}/keys` }]
  const auth = authOf(issuer, { issuers })
  await answerOf(auth, await issuer.tokenOf())
  await issuer.rotate('k2')
  const tokens = await Promise.all([
    ...Array.from({ length: 20 }, (_, n) => issuer.tokenOf({}, { kid: `made-up-${n}` })),
    issuer.tokenOf(),
  ])
  const answers = await Promise.all(tokens.map((token) => answerOf(auth, token)))
  expect(answers.slice(0, -1)).toEqual(Array.from({ length: 20 }, () => 401))
  expect(answers.at(-1)).toHaveProperty('id')
  expect(issuer.asked).toEqual([KEYS, KEYS])
})

test('does not read the keys for a client that repeats a token with an unknown key', async () => {
  await using issuer = await startIssuer()
  let ms = 0
  const issuers = [{ issuer: issuer.issuer, audience: AUDIENCE, jwksUrl: `${issuer.issuer}/keys` }]
  const auth = authOf(issuer, { issuers, now: () => Date.now() + ms })
  const old = await issuer.tokenOf({}, { kid: 'k0' })
  await answerOf(auth, await issuer.tokenOf())
  for (let n = 0; n < 50; n++) await expect(answerOf(auth, old)).resolves.toBe(401)
  expect(issuer.asked).toEqual([KEYS, KEYS])
  // A key that an issuer publishes after it signed with it.
  await issuer.rotate('k0')
  ms += 10_000
  await expect(answerOf(auth, await issuer.tokenOf())).resolves.toHaveProperty('id')
  expect(issuer.asked).toEqual([KEYS, KEYS, KEYS])
})

test('answers 503 with Retry-After while the issuer is down, and works again after that', async () => {
  await using issuer = await startIssuer()
  let ms = 0
  const auth = authOf(issuer, { now: () => Date.now() + ms })
  const token = await issuer.tokenOf()
  issuer.isDown = true
  const headers = new Headers({ authorization: `Bearer ${token}` })
  const answer = await auth.authenticate({ method: 'POST', url: AUDIENCE, headers })
  expect(answer).toMatchObject({ status: 503 })
  expect((answer as Response).headers.get('retry-after')).toBe('5')
  issuer.isDown = false
  const asked = issuer.asked.length
  await expect(answerOf(auth, token)).resolves.toBe(503) // not everybody knocks at a door that was just closed
  expect(issuer.asked).toHaveLength(asked)
  ms = 5000
  await expect(answerOf(auth, token)).resolves.toHaveProperty('id')
})

test('does not read the keys again for each token with an unknown key', async () => {
  await using issuer = await startIssuer()
  let ms = 0
  const issuers = [{ issuer: issuer.issuer, audience: AUDIENCE, jwksUrl: `${issuer.issuer}/keys` }]
  const auth = authOf(issuer, { issuers, now: () => Date.now() + ms })
  const madeUp = await issuer.tokenOf({}, { kid: 'none' })
  issuer.isDown = true
  for (let n = 0; n < 5; n++) await expect(answerOf(auth, madeUp)).resolves.toBe(503)
  expect(issuer.asked).toHaveLength(1)
  issuer.isDown = false
  ms = 5000
  for (let n = 0; n < 5; n++) await expect(answerOf(auth, madeUp)).resolves.toBe(401)
  expect(issuer.asked).toHaveLength(2)
  await expect(answerOf(auth, await issuer.tokenOf())).resolves.toHaveProperty('id')
})

test('refuses metadata that names another issuer', async () => {
  await using issuer = await startIssuer()
  issuer.metadata = { issuer: 'https://evil.example', jwks_uri: `${issuer.issuer}/keys` }
  await expect(answerOf(authOf(issuer), await issuer.tokenOf())).resolves.toBe(503)
  expect(issuer.asked).not.toContain('/realm/keys')
})

test.each<[string, string, (response: ServerResponse, issuer: string, end: () => void) => void]>([
  [
    'metadata that redirects',
    '/realm/.well-known/openid-configuration',
    (response) => response.writeHead(302, { location: '/realm/elsewhere' }).end(),
  ],
  [
    'keys that redirect',
    '/realm/keys',
    (response) => response.writeHead(302, { location: '/realm/elsewhere' }).end(),
  ],
  [
    'metadata that never arrives',
    '/realm/.well-known/openid-configuration',
    (_r, _i, end) => end(),
  ],
  ['keys that never arrive', '/realm/keys', (_response, _issuer, end) => end()],
  [
    'metadata that is too large',
    '/realm/.well-known/openid-configuration',
    (response, issuer) => {
      const document = { issuer, jwks_uri: `${issuer}/keys`, x: 'x'.repeat(300_000) }
      response.end(JSON.stringify(document))
    },
  ],
  [
    'keys that are too large',
    '/realm/keys',
    (response) => response.end(JSON.stringify({ keys: [], x: 'x'.repeat(1_100_000) })),
  ],
])('answers 503 for %s', async (_what, path, answer) => {
  await using issuer = await startIssuer()
  const late = new AbortController()
  const end = (): void => late.abort(new DOMException('Too late', 'TimeoutError'))
  issuer.inPlace.set(path, (response, name) => answer(response, name, end))
  // The time limit ends when the answer is due that never arrives.
  vi.spyOn(AbortSignal, 'timeout').mockReturnValue(late.signal)
  const auth = authOf(issuer)
  await expect(answerOf(auth, await issuer.tokenOf())).resolves.toBe(503)
  expect(issuer.asked).toContain(path)
  expect(issuer.asked).not.toContain('/realm/elsewhere')
})

test.each<[Partial<JwtAuthOptions['issuers'][number]>, string]>([
  [{ audience: [] }, 'audience'],
  [{ audience: '' }, 'audience'],
  [{ issuer: 'http://issuer.example' }, 'https'],
  [{ jwksUrl: 'ftp://issuer.example' }, 'https'],
  [{ issuer: 'nonsense' }, 'not a URL'],
])('refuses an unsafe configuration: %j', (issuer, message) => {
  const options = { issuers: [{ issuer: 'https://issuer.example', audience: AUDIENCE, ...issuer }] }
  expect(() => jwtAuth(options)).toThrow(
    expect.objectContaining({ code: 'CONFIG', message: expect.stringContaining(message) }),
  )
})

test('refuses a configuration without issuers', () => {
  expect(() => jwtAuth({ issuers: [] })).toThrow('needs an issuer')
})
