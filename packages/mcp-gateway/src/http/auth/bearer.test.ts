import { hash } from 'node:crypto'
import { inspect } from 'node:util'
import { expect, test } from 'vitest'
import type { AuthenticationRequest, Authenticator } from './authenticator.ts'
import { bearerAuth, hashedTokenFrom, type StaticToken } from './bearer.ts'

const requestWith = (authorization?: string): AuthenticationRequest => ({
  method: 'POST',
  url: 'https://gateway.example/mcp',
  headers: new Headers(authorization === undefined ? {} : { authorization }),
})

async function refusalOf(auth: Authenticator, authorization?: string): Promise<Response> {
  const answer = await auth.authenticate(requestWith(authorization))
  expect(answer).toBeInstanceOf(Response)
  return answer as Response
}

const sha256 = (text: string): string => hash('sha256', text)

test('gives a single token every scope', async () => {
  const auth = bearerAuth('s3cret-0123456789')
  await expect(auth.authenticate(requestWith('Bearer s3cret-0123456789'))).resolves.toEqual({
    id: 'token',
    scopes: ['*'],
    isAnonymous: false,
    claims: {},
  })
  await expect(auth.authenticate(requestWith('bearer  s3cret-0123456789'))).resolves.toHaveProperty(
    'id',
  )
})

test.each([
  [undefined, 'given no token'],
  ['', 'an empty token'],
  ['  ', 'an empty token'],
  [{}, 'an empty list of tokens'],
  [{ ci: {} as StaticToken }, '"tokens.ci.token" is missing'],
  ['abc', 'The token "token" needs at least 16 characters'],
  [{ ci: { token: '' } }, 'The token "ci" needs at least 16 characters'],
  [{ ci: { token: 'fifteen-letters' } }, 'at least 16 characters'],
  [{ ci: { token: 'a token of many words' } }, 'characters of A-Z a-z 0-9'],
  [{ ci: { token: 'sha256:abc' } }, '64 hex digits'],
  [{ ci: { token: 'a'.repeat(16), expiresAt: 'soon' } }, 'not a date'],
])(
  'refuses a configuration of tokens that accepts no caller or every caller: %j',
  (tokens, message) => {
    expect(() => bearerAuth(tokens)).toThrow(
      expect.objectContaining({ code: 'CONFIG', message: expect.stringContaining(message) }),
    )
  },
)

test('names an unset environment variable as the likely cause', () => {
  expect(() => bearerAuth(process.env['NO_SUCH_VARIABLE_HERE'])).toThrow('environment variable')
})

test('gives each token by name its own scopes and end', async () => {
  let now = Date.parse('2026-01-01')
  const auth = bearerAuth(
    {
      ci: { token: `sha256:${sha256('aaa').toUpperCase()}`, scopes: ['agent:shop:call'] },
      guest: { token: 'the-token-of-the-guest', expiresAt: '2026-01-02' },
    },
    { now: () => now },
  )
  const of = (token: string): Promise<unknown> => auth.authenticate(requestWith(`Bearer ${token}`))
  await expect(of('aaa')).resolves.toMatchObject({ id: 'ci', scopes: ['agent:shop:call'] })
  await expect(of('the-token-of-the-guest')).resolves.toMatchObject({ id: 'guest', scopes: [] })
  now = Date.parse('2026-01-02')
  await expect(of('the-token-of-the-guest')).resolves.toBeInstanceOf(Response)
})

test('answers a request without a credential with a challenge without error (RFC 6750 section 3)', async () => {
  for (const header of [undefined, 'Basic dXNlcjpwdw==', '']) {
    const response = await refusalOf(bearerAuth('s3cret-0123456789'), header)
    expect(response.status).toBe(401)
    expect(response.headers.get('www-authenticate')).toBe('Bearer')
    expect(await response.text()).toContain('send it in the header Authorization: Bearer <token>')
  }
})

test('answers 401 for a wrong token, and does not repeat it', async () => {
  for (const token of [
    'wrong-token',
    's3cret-012345678',
    's3cret-01234567890',
    'S3CRET-0123456789',
  ]) {
    const response = await refusalOf(bearerAuth('s3cret-0123456789'), `Bearer ${token}`)
    expect(response.status).toBe(401)
    const header = response.headers.get('www-authenticate') ?? ''
    expect(header).toMatch(/^Bearer error="invalid_token", error_description="[^"]+"$/)
    expect(header + (await response.text())).not.toContain(token)
  }
})

test.each(['Bearer', 'Bearer a b', 'Bearer a,b', `Bearer ${'a'.repeat(20_000)}`])(
  'answers 400 for a malformed token',
  async (header) => {
    const response = await refusalOf(bearerAuth('s3cret-0123456789'), header)
    expect(response.status).toBe(400)
    expect(response.headers.get('www-authenticate')).toContain('error="invalid_request"')
  },
)

test('keeps the hash of a token only', () => {
  const token = 'very-secret-token'
  const kept = hashedTokenFrom('ci', { token })
  expect(inspect(kept, { depth: null, showHidden: true })).not.toContain(token)
  expect(kept.sha256.toString('hex')).toBe(sha256(token))
})
