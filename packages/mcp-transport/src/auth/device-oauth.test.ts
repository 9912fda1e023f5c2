// A stub of the authorization server: it decides on `interval`, `slow_down` and failures. `test/device-sign-in.test.ts` has a real one.
import { inspect } from 'node:util'
import { DpopSession } from '@modelcontextprotocol/client'
import { deferred } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { signInByCode, TestClock } from '../../test/device-user.ts'
import type { SignInOptions } from '../../test/device-user.ts'
import { authErrorOf, oauthUser, renewal, RESOURCE } from '../../test/oauth-user.ts'
import { startProtectedServer } from '../../test/protected-server.ts'
import type { ProtectedServer } from '../../test/protected-server.ts'
import { AuthError } from './auth-provider.ts'
import type { DeviceAuthorization, UserCode } from './auth-provider.ts'
import { Authorizer } from './authorizer.ts'
import { afterFailure } from './device-flow.ts'
import { deviceOAuth } from './device-oauth.ts'
import { memoryTokenStore } from './token-store.ts'

const { fetch } = oauthUser()

const SECRET = 'device-code-secret'

/** Error of a token response, or its status. `granted`: the user has entered the code. */
type Answer = 'granted' | 'authorization_pending' | 'slow_down' | (string & {}) | number

/** An authorization server that gives codes. The last answer is repeated. */
async function startCodeServer(
  answers: readonly Answer[],
  codes: Record<string, unknown> = {},
): Promise<ProtectedServer> {
  const server = await startProtectedServer()
  const { behaviour, origin } = server
  const left = [...answers]
  let count = 0
  behaviour.metadata['device_authorization_endpoint'] = `${origin}/device`
  behaviour.pages['/device'] = () => ({
    status: 200,
    body: {
      device_code: `${SECRET}-${++count}`,
      user_code: `CODE-${count}`,
      verification_uri: `${origin}/activate`,
      expires_in: 600,
      ...codes,
    },
  })
  behaviour.pages['/token'] = ({ form }) => {
    if (form.get('grant_type') === 'refresh_token') return undefined
    const answer = (left.length > 1 ? left.shift() : left[0]) ?? 'authorization_pending'
    if (answer === 'granted') return { status: 200, body: server.issue() }
    if (typeof answer === 'number') return { status: answer }
    return { status: 400, body: { error: answer } }
  }
  return server
}

const signIn = (server: ProtectedServer, options?: SignInOptions): Promise<UserCode[]> =>
  signInByCode({ url: server.url, fetch }, options)

describe('a sign-in by code', () => {
  test('registers the client, shows the code, and requests tokens until the user has entered it', async () => {
    await using server = await startCodeServer(['authorization_pending', 'granted'], {
      verification_uri_complete: 'https://login.example/activate?code=CODE-1',
    })
    const store = memoryTokenStore()
    const clock = new TestClock()
    expect(await signIn(server, { store, clock, clientName: 'box', scope: 'read' })).toEqual([
      {
        userCode: 'CODE-1',
        url: `${server.origin}/activate`,
        completeUrl: 'https://login.example/activate?code=CODE-1',
        expiresAt: 600_000,
      },
    ])
    const [registered] = server.of('/register')
    expect(JSON.parse(registered?.body ?? '')).toMatchObject({
      client_name: 'box',
      application_type: 'native',
      grant_types: ['urn:ietf:params:oauth:grant-type:device_code', 'refresh_token'],
      redirect_uris: [],
    })
    const stored = await store.read()
    const common = { client_id: stored?.client?.client_id, resource: server.url }
    const [request] = server.of('/device')
    expect(Object.fromEntries(request?.form ?? [])).toEqual({ ...common, scope: 'read' })
    expect(request?.headers).toMatchObject({
      accept: 'application/json',
      'content-type': 'application/x-www-form-urlencoded',
    })
    expect(server.of('/token').map(({ form }) => Object.fromEntries(form))).toEqual(
      Array.from({ length: 2 }, () => ({
        ...common,
        grant_type: 'urn:ietf:params:oauth:grant-type:device_code',
        device_code: `${SECRET}-1`,
      })),
    )
    expect(clock.waits).toEqual([5000, 5000])
    expect(stored?.tokens).toMatchObject({ access_token: 'access-1', scope: 'read' })
    expect(inspect(stored)).not.toContain(SECRET)
  })

  test('keeps the interval of the server, and adds five seconds for each slow_down', async () => {
    const answers = ['slow_down', 'authorization_pending', 'slow_down', 'granted']
    await using server = await startCodeServer(answers, { interval: 2 })
    const clock = new TestClock()
    await signIn(server, { clock })
    expect(clock.waits).toEqual([2000, 7000, 7000, 12_000])
  })

  test('goes on after failures of the server, in longer intervals', async () => {
    await using server = await startCodeServer([503, 429, 'server_error', 'granted'], {
      interval: '3', // Entra ID v1 sends text
      expires_in: '900',
    })
    const clock = new TestClock()
    await signIn(server, { clock })
    expect(clock.waits).toEqual([3000, 6000, 12_000, 24_000])
  })

  test.each([
    ['access_denied', 'DENIED'],
    ['authorization_declined', 'DENIED'],
    ['expired_token', 'TIMEOUT'],
    ['invalid_grant', 'TOKEN_REFUSED'],
    [200, 'TOKEN_REFUSED'],
  ])('ends with %s, and forgets the code', async (answer, code) => {
    await using server = await startCodeServer(['authorization_pending', answer])
    const store = memoryTokenStore()
    const error = await authErrorOf(signIn(server, { store }))
    expect(error.code).toBe(code)
    expect(server.of('/token')).toHaveLength(2)
    expect(inspect([error, await store.read()], { depth: 9 })).not.toContain(SECRET)
    await authErrorOf(signIn(server, { store }))
    expect(server.of('/device')).toHaveLength(2)
  })

  test.each([
    ['when its code expires', { expires_in: 12, interval: 5 }, 2],
    ['after an hour', { expires_in: 1e9, interval: 60 }, 59],
    ['after an hour, whatever the interval', { expires_in: 1e9, interval: 1e9 }, 1],
    ['after at most one request each second', { expires_in: 5, interval: 0.01 }, 4],
  ])('ends with TIMEOUT %s', async (_when, codes, requests) => {
    await using server = await startCodeServer(['authorization_pending'], codes)
    const clock = new TestClock()
    expect((await authErrorOf(signIn(server, { clock }))).code).toBe('TIMEOUT')
    expect(server.of('/token')).toHaveLength(requests)
    expect(clock.time).toBeLessThanOrEqual(3_600_000)
  })

  test('refreshes the tokens later, without a code', async () => {
    await using server = await startCodeServer(['granted'])
    const store = memoryTokenStore()
    await signIn(server, { store })
    expect(await signIn(server, { store })).toEqual([])
    expect((await store.read())?.tokens?.access_token).toBe('access-2')
    expect(server.of('/device')).toHaveLength(1)
  })

  test('registers the client again if the server has forgotten it', async () => {
    await using server = await startCodeServer(['granted'])
    const { pages } = server.behaviour
    const give = pages['/device']
    pages['/device'] = () => {
      if (give !== undefined) pages['/device'] = give
      return { status: 401, body: { error: 'invalid_client' } }
    }
    expect(await signIn(server)).toHaveLength(1)
    expect(server.of('/register')).toHaveLength(2)
  })

  test.each([
    ['client_secret_basic', { authorization: `Basic ${btoa('box:hush')}` }, { client_id: 'box' }],
    ['client_secret_post', {}, { client_id: 'box', client_secret: 'hush' }],
  ])('authenticates a client with a secret by %s', async (method, headers, form) => {
    await using server = await startCodeServer(['granted'])
    server.behaviour.metadata['token_endpoint_auth_methods_supported'] = [method]
    await signIn(server, { clientId: 'box', clientSecret: 'hush' })
    const [request] = server.of('/device')
    expect(request?.headers).toMatchObject(headers)
    expect(Object.fromEntries(request?.form ?? [])).toMatchObject(form)
  })

  test('sends another DPoP proof with each token request', async () => {
    await using server = await startCodeServer(['authorization_pending', 'granted'])
    const session = await DpopSession.create()
    await signIn(server, { dpop: () => session })
    const proofs = server.of('/token').map(({ headers }) => headers['dpop'])
    expect(new Set(proofs).size).toBe(2)
  })
})

describe('the code of an earlier request', () => {
  /** Leaves a code in the store: its user has not entered it, and the process has ended. */
  async function leaveCode(server: ProtectedServer): Promise<ReturnType<typeof memoryTokenStore>> {
    const store = memoryTokenStore()
    const onCode = (): never => {
      throw new Error('The process ends')
    }
    await expect(signIn(server, { store, onCode })).rejects.toThrow('The process ends')
    expect(server.of('/token')).toEqual([])
    return store
  }

  test('gives tokens to the next process, which does not show it if the user has entered it', async () => {
    await using server = await startCodeServer(['granted'])
    const store = await leaveCode(server)
    expect(await signIn(server, { store })).toEqual([])
    expect(server.of('/device')).toHaveLength(1)
  })

  test('is shown again if the user has not entered it, and its interval is kept', async () => {
    await using server = await startCodeServer(['slow_down', 'authorization_pending', 'granted'])
    const store = await leaveCode(server)
    const clock = new TestClock()
    clock.time = 2000
    expect(await signIn(server, { store, clock })).toMatchObject([{ userCode: 'CODE-1' }])
    expect(clock.waits).toEqual([3000, 10_000, 10_000])
  })

  test.each(['expired_token', 'invalid_grant'])(
    'is replaced by another one if the server answers %s',
    async (answer) => {
      await using server = await startCodeServer([answer, 'authorization_pending', 'granted'])
      const store = await leaveCode(server)
      expect(await signIn(server, { store })).toMatchObject([{ userCode: 'CODE-2' }])
    },
  )

  test('is tried once, also with a store that cannot forget it', async () => {
    await using server = await startCodeServer([
      'invalid_grant',
      'authorization_pending',
      'granted',
    ])
    const store = await leaveCode(server)
    const left = await store.read()
    const reads = (): typeof left => left
    const shown = await signIn(server, { store: { read: reads, write: () => {} } })
    expect(shown).toMatchObject([{ userCode: 'CODE-2' }])
    expect(server.of('/token')).toHaveLength(3)
  })

  test('ends the sign-in if the user refuses access', async () => {
    await using server = await startCodeServer(['access_denied'])
    const store = await leaveCode(server)
    expect((await authErrorOf(signIn(server, { store }))).code).toBe('DENIED')
    expect(server.of('/device')).toHaveLength(1)
  })

  test('does not keep the metadata of the server, which may have changed', async () => {
    await using server = await startCodeServer(['granted'])
    const { pages, metadata } = server.behaviour
    pages[RESOURCE] = { status: 404 }
    const store = await leaveCode(server)
    metadata['token_endpoint'] = `${server.origin}/token-2`
    const token = pages['/token']
    if (token !== undefined) pages['/token-2'] = token
    expect(await signIn(server, { store })).toEqual([])
    expect([server.of('/token').length, server.of('/token-2').length]).toEqual([0, 1])
  })

  test('is not used when it has expired', async () => {
    await using server = await startCodeServer(['granted'])
    const store = await leaveCode(server)
    const clock = new TestClock()
    clock.time = 600_000
    expect(await signIn(server, { store, clock })).toMatchObject([{ userCode: 'CODE-2' }])
  })

  test.each([
    ['another client', { clientId: 'other' }],
    ['another scope', { scope: 'write' }],
  ])('is not used for %s', async (_what, options) => {
    await using server = await startCodeServer(['granted'])
    const store = await leaveCode(server)
    expect(await signIn(server, { store, ...options })).toMatchObject([{ userCode: 'CODE-2' }])
  })

  test.each(['server', 'issuer'])('is not sent to another %s', async (what) => {
    await using server = await startCodeServer(['granted'])
    const store = await leaveCode(server)
    await using other = await startCodeServer(['granted'])
    const left = await store.read()
    const { device, authorizationServerMetadata } = left?.discovery ?? {}
    const isServer = what === 'server'
    await store.write({
      v: 1,
      discovery: {
        authorizationServerUrl: server.origin,
        authorizationServerMetadata: isServer
          ? { issuer: other.origin }
          : authorizationServerMetadata,
        state: 'device',
        device: device && { ...device, server: isServer ? device.server : other.origin },
      },
    })
    await signIn(other, { store, clientId: device?.clientId })
    expect(other.of('/device')).toHaveLength(1)
  })

  test('serves two processes: one takes the tokens that the other one got', async () => {
    await using server = await startCodeServer([
      'authorization_pending',
      'granted',
      'invalid_grant',
    ])
    const store = memoryTokenStore()
    const clock = new TestClock()
    let inner = 0
    clock.sleep = async () => {
      clock.time += 5000
      if (inner++ === 1) await signIn(server, { store, clock: new TestClock() })
    }
    await signIn(server, { store, clock })
    expect(server.of('/device')).toHaveLength(1)
    expect((await store.read())?.tokens?.access_token).toBe('access-1')
  })
})

describe('a sign-in by code fails', () => {
  test('without a registration at a server that gives no codes', async () => {
    await using server = await startProtectedServer()
    const error = await authErrorOf(signIn(server))
    expect(error).toMatchObject({
      code: 'DEVICE_UNSUPPORTED',
      message: expect.stringContaining('device_authorization_endpoint'),
    })
    expect(server.of('/register')).toEqual([])
  })

  test.each([
    [{ device_code: undefined }, 'device_code'],
    [{ user_code: '' }, 'user_code'],
    [{ user_code: 'A\u001B[2J' }, 'user_code'],
    [{ user_code: 'A'.repeat(65) }, 'user_code'],
    [{ verification_uri: '/activate' }, 'verification_uri'],
    [{ expires_in: 'soon' }, 'expires_in'],
    [{ expires_in: undefined }, 'expires_in'],
  ])('for a response with %o', async (codes, field) => {
    await using server = await startCodeServer(['granted'], codes)
    const error = await authErrorOf(signIn(server))
    expect(error.code).toBe('INVALID_RESPONSE')
    expect(error.message).toContain(field)
    expect(server.of('/token')).toEqual([])
  })

  test.each([
    ['page', 'verification_uri', 'http://login.example/'],
    ['page with the code', 'verification_uri_complete', 'javascript:alert(1)'],
  ])('for a %s that is neither https nor on this machine', async (_what, field, url) => {
    await using server = await startCodeServer(['granted'], { [field]: url })
    expect((await authErrorOf(signIn(server))).code).toBe('INSECURE_URL')
  })

  test('for a device authorization endpoint that is neither https nor on this machine', async () => {
    await using server = await startCodeServer(['granted'])
    server.behaviour.metadata['device_authorization_endpoint'] = 'http://login.example/device'
    expect((await authErrorOf(signIn(server))).code).toBe('INSECURE_URL')
  })

  test('with the error of the server, and without its description', async () => {
    await using server = await startCodeServer(['granted'])
    const body = { error: 'invalid_scope', error_description: 'the scope "payroll"' }
    server.behaviour.pages['/device'] = { status: 400, body }
    const error = await authErrorOf(signIn(server))
    expect(error).toMatchObject({ code: 'TOKEN_REFUSED', oauthError: 'invalid_scope' })
    expect(inspect(error)).not.toContain('payroll')
  })
})

test('requests of one provider share a code, and the last one that is aborted ends the wait', async () => {
  await using server = await startCodeServer(['authorization_pending'])
  const shown = deferred<AbortSignal>()
  const store = memoryTokenStore()
  let count = 0
  const provider = deviceOAuth({
    store,
    onCode: (_code, { signal }) => {
      count++
      shown.resolve(signal)
    },
  })
  const controllers = [new AbortController(), new AbortController()]
  const requests = controllers.map(({ signal }) =>
    new Authorizer(provider, new URL(server.url), fetch).renew({ ...renewal(), signal }),
  )
  const outcomes = Promise.allSettled(requests)
  const signal = await shown.promise
  controllers[0]?.abort()
  await expect(requests[0]).rejects.toMatchObject({ code: 'CLOSED' })
  expect(signal.aborted).toBe(false)
  controllers[1]?.abort()
  await outcomes
  await expect(requests[1]).rejects.toMatchObject({ code: 'CLOSED' })
  expect([signal.aborted, count, server.of('/device').length]).toEqual([true, 1, 1])
  expect((await store.read())?.discovery?.device?.userCode).toBe('CODE-1')
})

test('a wait that was aborted ends with CLOSED, so that another request starts it again', async () => {
  await using server = await startCodeServer(['authorization_pending'])
  const controller = new AbortController()
  const { signal } = controller
  const onCode = (): Promise<void> => new Promise(() => controller.abort())
  await expect(signIn(server, { signal, onCode })).rejects.toMatchObject({ code: 'CLOSED' })
})

test('a failure that is no answer of the server ends the wait', () => {
  const device: DeviceAuthorization = {
    userCode: 'A',
    url: 'https://login.example',
    expiresAt: 600_000,
    deviceCode: SECRET,
    clientId: 'box',
    server: 'https://shop.example',
    intervalMs: 50_000,
    nextAt: 0,
  }
  const busy = new AuthError('TOKEN_REFUSED', '', { oauthError: 'temporarily_unavailable' })
  expect(afterFailure(device, busy, 0)).toMatchObject({ intervalMs: 60_000, nextAt: 60_000 })
  const slow = { ...device, intervalMs: 90_000 }
  expect(afterFailure(slow, busy, 0)).toMatchObject({ intervalMs: 90_000 })
  const bug = new TypeError('a bug')
  expect(() => afterFailure(device, bug, 0)).toThrow(bug)
})
