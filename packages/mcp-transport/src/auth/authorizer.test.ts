import { deferred } from '@x/mcp-testing'
import { expect, test, describe } from 'vitest'
import { TransportError } from '../transport-error.ts'
import type { TokenProvider } from './auth-provider.ts'
import { AuthAttempts, Authorizer, oauthChallenge, parseChallenges } from './authorizer.ts'
import type { FetchFunction, Renewal } from './authorizer.ts'

describe('authorizer', () => {
  const signal = new AbortController().signal

  type Request = Pick<Renewal, 'refused' | 'signal'>

  /** A provider that gets its next token from `obtain`, which may send requests with `fetch`. */
  function credential(obtain?: (fetch: FetchFunction) => Promise<unknown>): {
    renewals: { renew(request: Request): Promise<void> }
    state: { token: string | undefined; obtained: number }
    fetched: AbortSignal[]
  } {
    const state = { token: 't0' as string | undefined, obtained: 0 }
    const fetched: AbortSignal[] = []
    const provider: TokenProvider = {
      token: () => state.token,
      async onUnauthorized({ fetchFn }) {
        state.obtained += 1
        await obtain?.(fetchFn)
        state.token = `t${state.obtained}`
      },
    }
    const authorizer = new Authorizer(provider, new URL('https://mcp.test/mcp'))
    const rest = {
      fetch: (_url: string | URL, init?: RequestInit) =>
        new Promise<Response>((_resolve, reject) => {
          init?.signal?.addEventListener('abort', () => reject(new Error('stopped')))
          if (init?.signal) fetched.push(init.signal)
        }),
      refusal: { status: 401, headers: {}, text: '' },
      challenge: undefined,
      isStepUp: false,
    }
    const renewals = {
      renew: (request: Request) => authorizer.renew({ ...rest, ...request }),
    }
    return { renewals, state, fetched }
  }

  test('renews a token once for ten refusals', async () => {
    const { renewals, state } = credential()
    await Promise.all(Array.from({ length: 10 }, () => renewals.renew({ refused: 't0', signal })))
    expect(state).toEqual({ token: 't1', obtained: 1 })
  })

  test('returns the current token without a renewal when an older token is refused', async () => {
    const { renewals, state } = credential()
    await renewals.renew({ refused: 'older', signal })
    expect(state.obtained).toBe(0)
  })

  test('renews the token again when the renewed token is refused', async () => {
    const { renewals, state } = credential()
    await renewals.renew({ refused: 't0', signal })
    await renewals.renew({ refused: 't1', signal })
    expect(state).toEqual({ token: 't2', obtained: 2 })
  })

  test('rejects all waiting requests when a renewal fails, and renews again for the next request', async () => {
    let fails = true
    const { renewals, state } = credential(async () => {
      if (fails) throw new Error('no')
    })
    const all = await Promise.allSettled(
      Array.from({ length: 3 }, () => renewals.renew({ refused: 't0', signal })),
    )
    expect(all.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected'])
    expect(state.obtained).toBe(1)
    fails = false
    await renewals.renew({ refused: 't0', signal })
    expect(state.obtained).toBe(2)
  })

  test('ignores a failed renewal if the provider has a newer token by then', async () => {
    const { renewals, state } = credential(async () => {
      state.token = 'of another process'
      throw new Error('lost the race')
    })
    const first = renewals.renew({ refused: 't0', signal })
    const second = renewals.renew({ refused: 't0', signal })
    await Promise.all([first, second])
    expect(state.obtained).toBe(1)
  })

  test('continues the renewal for the other requests when one request is aborted', async () => {
    const go = deferred()
    const { renewals, state } = credential(() => go.promise)
    const controller = new AbortController()
    const first = renewals.renew({ refused: 't0', signal: controller.signal })
    const second = renewals.renew({ refused: 't0', signal })
    controller.abort()
    await expect(first).rejects.toMatchObject({ code: 'CLOSED' })
    go.resolve()
    await second
    expect(state.token).toBe('t1')
  })

  test('aborts the renewal when all waiting requests are aborted', async () => {
    const asked = deferred()
    const { renewals, fetched } = credential((fetch) => {
      asked.resolve()
      return fetch('https://login.test/')
    })
    const controller = new AbortController()
    const only = renewals.renew({ refused: 't0', signal: controller.signal })
    await asked.promise
    controller.abort()
    await expect(only).rejects.toMatchObject({ code: 'CLOSED' })
    expect(fetched.map(({ aborted }) => aborted)).toEqual([true])
  })

  test('continues the renewal for other transports when the transport that started it closes', async () => {
    let isFirst = true
    const { renewals, state } = credential(async () => {
      if (!isFirst) return
      isFirst = false
      throw new TransportError('CLOSED', 'The dispatcher of this transport was closed')
    })
    const first = renewals.renew({ refused: 't0', signal })
    const second = renewals.renew({ refused: 't0', signal })
    await expect(first).rejects.toMatchObject({ code: 'CLOSED' })
    await second
    expect(state).toEqual({ token: 't2', obtained: 2 })
  })
})

describe('challenge', () => {
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

    test('limits the length of a header', () => {
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

    test('reads a DPoP challenge, with and without a Bearer challenge', () => {
      const metadata = 'resource_metadata="https://a.test/meta"'
      const nonce = 'DPoP error="use_dpop_nonce"'
      for (const value of [`${nonce}, ${metadata}`, `Bearer ${metadata}, ${nonce}`]) {
        expect(oauthChallenge({ 'www-authenticate': value })).toMatchObject({
          error: 'use_dpop_nonce',
          resourceMetadata: 'https://a.test/meta',
        })
      }
    })

    test('returns undefined without a challenge', () => {
      expect(oauthChallenge({})).toBeUndefined()
      expect(oauthChallenge({ 'www-authenticate': 'Basic realm="x"' })).toBeUndefined()
    })
  })

  const scope = (scopes?: string): { error: string; scope: string | undefined } => ({
    error: 'insufficient_scope',
    scope: scopes,
  })

  test('allows one renewal after a response with status 401', () => {
    const attempts = new AuthAttempts()
    expect(attempts.next(401, undefined)).toBe('renew')
    expect(attempts.next(401, undefined)).toBeUndefined()
  })

  test('allows a step-up after a renewal', () => {
    const attempts = new AuthAttempts()
    expect(attempts.next(401, { error: 'invalid_token' })).toBe('renew')
    expect(attempts.next(403, scope('a'))).toBe('step-up')
  })

  test('allows each set of scopes once, in any order', () => {
    const attempts = new AuthAttempts()
    expect(attempts.next(403, scope('a b'))).toBe('step-up')
    expect(attempts.next(403, scope('b a'))).toBeUndefined()
    expect(attempts.next(403, scope('c'))).toBe('step-up')
  })

  test('allows three attempts in total', () => {
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
  ])('allows no further attempt after status %i with the challenge %j', (status, challenge) => {
    expect(new AuthAttempts().next(status, challenge)).toBeUndefined()
  })

  test('allows one more request with a nonce for each token', () => {
    const nonce = { error: 'use_dpop_nonce' }
    const attempts = new AuthAttempts()
    const all = [nonce, nonce, nonce, nonce].map((challenge) => attempts.next(401, challenge))
    expect(all).toEqual(['nonce', 'renew', 'nonce', undefined])
  })
})
