import { describe, expect, test } from 'vitest'
import { AuthAttempts, oauthChallenge, parseChallenges } from './challenge.ts'

function read(value: string): [string, Record<string, string>][] {
  return parseChallenges(value).map(({ scheme, parameters }) => [
    scheme,
    Object.fromEntries(parameters),
  ])
}

describe('parseChallenges', () => {
  test.each([
    ['Bearer', [['bearer', {}]]],
    ['', []],
    ['Bearer realm="a, b", scope="x y"', [['bearer', { realm: 'a, b', scope: 'x y' }]]],
    ['bearer Error=insufficient_scope', [['bearer', { error: 'insufficient_scope' }]]],
    ['Bearer error = "a" , scope = b', [['bearer', { error: 'a', scope: 'b' }]]],
    [
      String.raw`Bearer realm="say \"hi\" \\"`,
      [['bearer', { realm: String.raw`say "hi" \ `.trim() }]],
    ],
    [
      'Basic realm="x", Bearer scope="y", Digest nonce=z',
      [
        ['basic', { realm: 'x' }],
        ['bearer', { scope: 'y' }],
        ['digest', { nonce: 'z' }],
      ],
    ],
    ['Bearer scope="first", scope="second"', [['bearer', { scope: 'first' }]]],
    ['scope="without a scheme"', []],
    [
      'Bearer scope="never closed',
      [
        ['bearer', { scope: '' }],
        ['never', {}],
        ['closed', {}],
      ],
    ],
  ])('%s', (value, expected) => {
    expect(read(value)).toEqual(expected)
  })

  test('a header that never ends is cut', () => {
    const [challenge] = parseChallenges(`Bearer scope="s", x="y"${', a=b'.repeat(100_000)}`)
    expect(challenge?.parameters.get('scope')).toBe('s')
  })
})

describe('oauthChallenge', () => {
  test('finds the Bearer challenge among several headers', () => {
    const headers = {
      'www-authenticate': [
        'Negotiate',
        'Bearer resource_metadata="https://a.test/meta", scope="s", error="invalid_token"',
      ],
    }
    expect(oauthChallenge(headers)).toEqual({
      error: 'invalid_token',
      scope: 's',
      resourceMetadata: 'https://a.test/meta',
    })
  })

  test('reads a DPoP challenge, alone or beside a Bearer one', () => {
    const metadata = 'resource_metadata="https://a.test/meta"'
    const nonce = 'DPoP error="use_dpop_nonce"'
    for (const value of [`${nonce}, ${metadata}`, `Bearer ${metadata}, ${nonce}`]) {
      expect(oauthChallenge({ 'www-authenticate': value })).toMatchObject({
        error: 'use_dpop_nonce',
        resourceMetadata: 'https://a.test/meta',
      })
    }
  })

  test('is undefined without one', () => {
    expect(oauthChallenge({})).toBeUndefined()
    expect(oauthChallenge({ 'www-authenticate': 'Basic realm="x"' })).toBeUndefined()
  })
})

const scope = (scopes?: string): { error: string; scope: string | undefined } => ({
  error: 'insufficient_scope',
  scope: scopes,
})

test('one other token for a 401', () => {
  const attempts = new AuthAttempts()
  expect(attempts.next(401, undefined)).toBe('renew')
  expect(attempts.next(401, undefined)).toBeUndefined()
})

test('a 401 may be followed by a step-up', () => {
  const attempts = new AuthAttempts()
  expect(attempts.next(401, { error: 'invalid_token' })).toBe('renew')
  expect(attempts.next(403, scope('a'))).toBe('step-up')
})

test('each set of scopes once, whatever their order', () => {
  const attempts = new AuthAttempts()
  expect(attempts.next(403, scope('a b'))).toBe('step-up')
  expect(attempts.next(403, scope('b a'))).toBeUndefined()
  expect(attempts.next(403, scope('c'))).toBe('step-up')
})

test('three attempts in all', () => {
  const attempts = new AuthAttempts()
  const all = ['a', 'b', 'c', 'd'].map((one) => attempts.next(403, scope(one)))
  expect(all).toEqual(['step-up', 'step-up', 'step-up', undefined])
  expect(attempts.next(401, undefined)).toBeUndefined()
})

test.each([
  [403, undefined],
  [403, { error: 'invalid_token' }],
  [200, scope('a')],
  [500, undefined],
])('%i with %j is final', (status, challenge) => {
  expect(new AuthAttempts().next(status, challenge)).toBeUndefined()
})

test('one nonce for each token, beside the other attempts', () => {
  const nonce = { error: 'use_dpop_nonce' }
  const attempts = new AuthAttempts()
  const all = [nonce, nonce, nonce, nonce].map((challenge) => attempts.next(401, challenge))
  expect(all).toEqual(['nonce', 'renew', 'nonce', undefined])
})
