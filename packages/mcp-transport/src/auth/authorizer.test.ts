import { deferred } from '@x/mcp-testing'
import { expect, test, describe } from 'vitest'
import { TransportError } from '../transport-error.ts'
import type { TokenProvider } from './auth-provider.ts'
import { AuthAttempts, Authorizer, oauthChallenge } from './authorizer.ts'
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
    const fetch: FetchFunction = (_url, init) =>
      new Promise((_resolve, reject) => {
        init?.signal?.addEventListener('abort', () => reject(new Error('stopped')))
        if (init?.signal) fetched.push(init.signal)
      })
    const authorizer = new Authorizer(provider, new URL('https://mcp.test/mcp'), fetch)
    const rest = {
      refusal: { status: 401, headers: {}, text: '' },
      isStepUp: false,
    }
    const renewals = {
      renew: (request: Request) => authorizer.renew({ ...rest, ...request }),
    }
    return { renewals, state, fetched }
  }

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

describe('oauthChallenge', () => {
  test.each([
    ['Bearer', {}],
    ['', {}],
    ['Basic realm="x", scope="y"', {}],
    ['Bearer realm="a, b", scope="x y"', { scope: 'x y' }],
    ['bearer Error=insufficient_scope', { error: 'insufficient_scope' }],
    ['Bearer error = "a" , scope = b', { error: 'a', scope: 'b' }],
    [String.raw`Bearer scope="say \"hi\" \\"`, { scope: String.raw`say "hi" \ `.trim() }],
    ['Basic realm="x", Bearer scope="y"', { scope: 'y' }],
    ['Bearer scope="first", scope="second"', { scope: 'first' }],
    [
      'DPoP error="use_dpop_nonce", resource_metadata="https://a.test/meta"',
      { error: 'use_dpop_nonce', resourceMetadata: 'https://a.test/meta' },
    ],
    [
      ['Negotiate', 'Bearer resource_metadata="https://a.test/meta"', 'DPoP error="e"'],
      { error: 'e', resourceMetadata: 'https://a.test/meta' },
    ],
    [`Bearer scope="s", x="y"${', a=b'.repeat(100_000)}, error="e"`, { scope: 's' }],
  ])('reads %.60s', (value, expected) => {
    const none = { error: undefined, scope: undefined, resourceMetadata: undefined }
    expect(oauthChallenge({ 'www-authenticate': value })).toEqual({ ...none, ...expected })
  })
})

describe('the attempts of one request', () => {
  const refusal = (status: number, challenge?: string): Parameters<AuthAttempts['next']>[0] => ({
    status,
    headers: challenge === undefined ? {} : { 'www-authenticate': `Bearer ${challenge}` },
  })
  const scope = (scopes: string) => refusal(403, `error="insufficient_scope", scope="${scopes}"`)
  const nonce = refusal(401, 'error="use_dpop_nonce"')

  test.each([
    ['one renewal', [refusal(401), refusal(401)], ['renew', undefined]],
    [
      'a step-up after a renewal',
      [refusal(401, 'error="invalid_token"'), scope('a')],
      ['renew', 'step-up'],
    ],
    [
      'each set of scopes once, in any order',
      [scope('a b'), scope('b a'), scope('c')],
      ['step-up', undefined, 'step-up'],
    ],
    [
      'three authorizations in total',
      [scope('a'), scope('b'), scope('c'), scope('d'), refusal(401)],
      ['step-up', 'step-up', 'step-up', undefined, undefined],
    ],
    ['one nonce', [nonce, nonce, nonce], ['nonce', 'renew', undefined]],
    ['nothing after 403 without a challenge', [refusal(403)], [undefined]],
    ['nothing after another 403', [refusal(403, 'error="invalid_token"')], [undefined]],
    ['nothing after 500', [refusal(500)], [undefined]],
  ])('are: %s', (_what, refusals, steps) => {
    const attempts = new AuthAttempts()
    expect(refusals.map((one) => attempts.next(one))).toEqual(steps)
  })
})
