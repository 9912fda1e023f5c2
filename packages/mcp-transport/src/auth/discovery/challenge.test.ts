import { describe, expect, test } from 'vitest'
import { bearerChallengeFrom, challengesFrom } from './challenge.ts'

function read(value: string): [string, Record<string, string>][] {
  return challengesFrom(value).map(({ scheme, parameters }) => [
    scheme,
    Object.fromEntries(parameters),
  ])
}

describe('challengesFrom', () => {
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
    const [challenge] = challengesFrom(`Bearer scope="s", x="y"${', a=b'.repeat(100_000)}`)
    expect(challenge?.parameters.get('scope')).toBe('s')
  })
})

describe('bearerChallengeFrom', () => {
  test('finds the Bearer challenge among several headers', () => {
    const headers = {
      'www-authenticate': [
        'Negotiate',
        'Bearer resource_metadata="https://a.test/meta", scope="s", error="invalid_token"',
      ],
    }
    expect(bearerChallengeFrom(headers)).toEqual({
      error: 'invalid_token',
      scope: 's',
      resourceMetadata: 'https://a.test/meta',
    })
  })

  test('is undefined without one', () => {
    expect(bearerChallengeFrom({})).toBeUndefined()
    expect(bearerChallengeFrom({ 'www-authenticate': 'Basic realm="x"' })).toBeUndefined()
  })
})
