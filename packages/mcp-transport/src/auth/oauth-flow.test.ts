import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { describe, expect, test, vi } from 'vitest'
import {
  ISSUER,
  nameIssuers,
  oauthUser,
  renewal,
  renewToken,
  RESOURCE,
} from '../../test/oauth-user.ts'
import { browse, startProtectedServer } from '../../test/protected-server.ts'
import type { ProtectedServer } from '../../test/protected-server.ts'
import { TransportError } from '../transport-error.ts'
import { AuthError } from './auth-provider.ts'
import type { OAuthClientProvider, OAuthTokens } from './auth-provider.ts'
import { Authorizer } from './authorizer.ts'
import { callbackParameters } from './oauth-flow.ts'
import { clientCredentials } from './providers.ts'
import type { AuthProviderOptions } from './providers.ts'
import { fileTokenStore, memoryTokenStore } from './token-store.ts'

const { fetch, sentTo, user, leaves, comesBack, finish } = oauthUser()

/** Handles a refusal in the same way as a transport. */
const refuse = (
  server: ProtectedServer,
  provider: OAuthClientProvider,
  challenge = `Bearer resource_metadata="${server.origin}${RESOURCE}"`,
): Promise<string | undefined> => renewToken(provider, { url: server.url, fetch }, challenge)

async function sendAway(server: ProtectedServer, provider: OAuthClientProvider): Promise<URL> {
  await expect(refuse(server, provider)).rejects.toMatchObject({ code: 'AUTHORIZATION_REQUIRED' })
  return comesBack()
}

async function authorized(
  server: ProtectedServer,
  options: Partial<AuthProviderOptions> = {},
): Promise<OAuthClientProvider> {
  const provider = user(options)
  await refuse(server, provider)
  server.seen.length = 0
  return provider
}

/** Refuses the next token request. */
function refuseOnce(server: ProtectedServer, error: string): void {
  server.behaviour.pages['/token'] = () => {
    delete server.behaviour.pages['/token']
    return { status: 400, body: { error } }
  }
}

describe('an authorization by the user', () => {
  test('registers the client, sends PKCE, state and resource, and exchanges the code for a token', async () => {
    await using server = await startProtectedServer()
    expect(await refuse(server, user())).toBe('access-1')
    expect(JSON.parse(server.of('POST /register')[0]?.body ?? '')).toMatchObject({
      client_name: 'test',
      application_type: 'native',
      grant_types: ['authorization_code', 'refresh_token'],
    })
    expect(Object.fromEntries(sentTo[0]?.searchParams ?? [])).toMatchObject({
      code_challenge_method: 'S256',
      resource: server.url,
      state: expect.stringMatching(/.{16}/),
    })
    expect(Object.fromEntries(server.of('POST /token')[0]?.form ?? [])).toMatchObject({
      grant_type: 'authorization_code',
      resource: server.url,
      redirect_uri: 'http://127.0.0.1:9/callback',
    })
  })

  test('never sends a client id of the caller to another authorization server', async () => {
    await using server = await startProtectedServer()
    const provider = user({ clientId: 'by hand', issuer: 'https://other.test' })
    await expect(refuse(server, provider)).rejects.toMatchObject({ code: 'ISSUER_MISMATCH' })
    expect(sentTo).toEqual([])
  })

  test('binds a client id without an issuer to the first authorization server', async () => {
    await using first = await startProtectedServer()
    await using second = await startProtectedServer()
    const provider = await authorized(first, { clientId: 'by hand' })
    nameIssuers(first, second.origin)
    await expect(refuse(first, provider)).rejects.toMatchObject({ code: 'ISSUER_MISMATCH' })
    expect(JSON.stringify(second.seen)).not.toContain('by hand')
    expect(sentTo).toHaveLength(1)
  })

  test('requests the old and the new scopes for a step-up, without a refresh', async () => {
    await using server = await startProtectedServer({ scopesSupported: ['read'] })
    // The server does not repeat the scopes in its response.
    server.behaviour.pages['/token'] = () => ({ status: 200, body: server.issue() })
    const provider = user()
    await refuse(server, provider)
    await refuse(server, provider, 'Bearer error="insufficient_scope", scope="write"')
    expect(sentTo.map((url) => url.searchParams.get('scope'))).toEqual(['read', 'read write'])
    expect(new Set(server.of('/token').map(({ form }) => form.get('grant_type')))).toEqual(
      new Set(['authorization_code']),
    )
  })

  test.each([
    ['error=access_denied', { code: 'DENIED', oauthError: 'access_denied' }],
    ['error=a%0Ab', { code: 'DENIED', oauthError: 'a?b' }],
    [`error=${'x'.repeat(65)}`, { code: 'DENIED', oauthError: 'x'.repeat(64) }],
    ['code=stolen&state=other', { code: 'STATE_MISMATCH' }],
    ['code=stolen', { code: 'STATE_MISMATCH' }],
    ['error=buy_this&iss=https://evil.test', { code: 'ISSUER_MISMATCH', oauthError: undefined }],
  ])('sends no code after the callback ?%s', async (query, expected) => {
    await using server = await startProtectedServer()
    const redirect = (url: URL): string =>
      `${server.origin}/cb?state=${query.includes('stolen') ? '' : url.searchParams.get('state')}&${query}`
    await expect(refuse(server, user({ redirect }))).rejects.toMatchObject(expected)
    expect(server.of('/token')).toHaveLength(0)
  })

  test('opens no page of an authorization server that is neither https nor on this machine', async () => {
    const authorization_endpoint = 'http://as.test/authorize'
    await using server = await startProtectedServer({ metadata: { authorization_endpoint } })
    await expect(refuse(server, user())).rejects.toMatchObject({ code: 'INSECURE_URL' })
    expect(sentTo).toEqual([])
  })
})

describe('finishAuth()', () => {
  test.each(['', ' ', '?state=s', 'http://127.0.0.1:9/callback?state=s'])(
    'throws a TypeError for the callback %j',
    async (callback) => {
      await using server = await startProtectedServer()
      await expect(finish(server, leaves(), callback)).rejects.toThrow(TypeError)
      expect(server.seen).toEqual([])
    },
  )

  test('accepts the code alone, unless the metadata announces iss', async () => {
    await using server = await startProtectedServer()
    const provider = leaves()
    const code = (await sendAway(server, provider)).searchParams.get('code') ?? ''
    await finish(server, provider, code)
    expect((await provider.tokens())?.access_token).toBe('access-1')
    server.behaviour.metadata = { authorization_response_iss_parameter_supported: true }
    const other = leaves()
    await sendAway(server, other)
    await expect(finish(server, other, code)).rejects.toMatchObject({ code: 'ISSUER_MISMATCH' })
  })

  test('works in another process with the same store', async () => {
    await using server = await startProtectedServer()
    const store = memoryTokenStore()
    const callback = await sendAway(server, leaves({ store }))
    const later = leaves({ store })
    const forged = new URL(callback)
    forged.searchParams.set('state', 'other')
    await expect(finish(server, later, forged)).rejects.toMatchObject({ code: 'STATE_MISMATCH' })
    await finish(server, later, callback)
    expect((await later.tokens())?.access_token).toBe('access-1')
    await expect(finish(server, later, callback)).rejects.toMatchObject({ code: 'STATE_MISMATCH' })
  })

  test('sends the code to the authorization server that the user was sent to', async () => {
    await using server = await startProtectedServer()
    await using other = await startProtectedServer()
    const store = memoryTokenStore()
    const callback = await sendAway(server, leaves({ store }))
    nameIssuers(server, other.origin)
    await finish(server, leaves({ store }), callback)
    expect([server.of('/token').length, other.seen.length]).toEqual([1, 0])
  })

  test.each([
    [true, (issuer: string) => issuer, 'accepted'],
    [true, () => undefined, 'ISSUER_MISMATCH'],
    [true, (issuer: string) => `${issuer}/`, 'ISSUER_MISMATCH'],
    [false, () => undefined, 'accepted'],
    [false, () => 'https://evil.test', 'ISSUER_MISMATCH'],
  ])('checks iss (announced: %s, iss: %s): %s', async (isPromised, iss, expected) => {
    await using server = await startProtectedServer({
      metadata: { authorization_response_iss_parameter_supported: isPromised },
    })
    const provider = leaves()
    const callback = await sendAway(server, provider)
    const value = iss(server.origin)
    if (value !== undefined) callback.searchParams.set('iss', value)
    const outcome = await finish(server, provider, callback).then(
      () => 'accepted',
      (error: unknown) => (AuthError.is(error) ? error.code : error),
    )
    expect(outcome).toBe(expected)
    expect(server.of('/token')).toHaveLength(expected === 'accepted' ? 1 : 0)
  })
})

describe('a refresh', () => {
  test('stores the new refresh token and the scopes, and does not ask the user', async () => {
    await using server = await startProtectedServer({ scopesSupported: ['read'] })
    const prepareRedirect = vi.fn<() => void>()
    const provider = { ...(await authorized(server)), prepareRedirect }
    expect(await refuse(server, provider)).toBe('access-2')
    expect(prepareRedirect).not.toHaveBeenCalled()
    expect(Object.fromEntries(server.of('/token')[0]?.form ?? [])).toMatchObject({
      grant_type: 'refresh_token',
      refresh_token: 'refresh-1',
      resource: server.url,
    })
    expect(await provider.tokens()).toMatchObject({ refresh_token: 'refresh-2', scope: 'read' })
    expect(sentTo).toHaveLength(1)
  })

  test.each(['invalid_grant', 'invalid_dpop_proof'])(
    'asks the user after the error %s, and removes the tokens before',
    async (error) => {
      await using server = await startProtectedServer()
      const provider = await authorized(server)
      refuseOnce(server, error)
      expect(await refuse(server, provider)).toBe('access-2')
      expect(sentTo).toHaveLength(2)
      expect(server.of('/register')).toHaveLength(0)
    },
  )

  test.each(['invalid_client', 'unauthorized_client'])(
    'registers the client again after the error %s',
    async (error) => {
      await using server = await startProtectedServer()
      const provider = await authorized(server)
      refuseOnce(server, error)
      expect(await refuse(server, provider)).toBe('access-2')
      expect(server.of('/register')).toHaveLength(1)
    },
  )

  test('fails if the server does not know a client that was registered by hand', async () => {
    await using server = await startProtectedServer()
    const provider = await authorized(server, { clientId: 'by hand' })
    refuseOnce(server, 'invalid_client')
    await expect(refuse(server, provider)).rejects.toMatchObject({ oauthError: 'invalid_client' })
    expect((await provider.tokens())?.refresh_token).toBe('refresh-1')
  })

  test('uses the token that another process stored during the refresh', async () => {
    await using server = await startProtectedServer()
    const store = memoryTokenStore()
    const provider = await authorized(server, { store })
    server.behaviour.pages['/token'] = () => {
      const stored = { v: 1, tokens: { ...server.issue(), issuer: server.origin } } as const
      void store.write(stored) // by the other process, just before this one
      return { status: 400, body: { error: 'invalid_grant' } }
    }
    expect(await refuse(server, provider)).toBe('access-2')
    expect((await provider.tokens())?.refresh_token).toBe('refresh-2')
    expect(sentTo).toHaveLength(1)
  })

  test('sends one request for two processes that share a file', async () => {
    await using server = await startProtectedServer()
    const folder = await mkdtemp(join(tmpdir(), 'oauth-'))
    const path = join(folder, 'new', 'shop.json')
    await authorized(server, { store: fileTokenStore(path) })
    const processes = [1, 2, 3].map(() => user({ store: fileTokenStore(path) }))
    const tokens = await Promise.all(processes.map((provider) => refuse(server, provider)))
    await rm(folder, { recursive: true })
    expect(tokens).toEqual(['access-2', 'access-2', 'access-2'])
    expect(server.of('/token')).toHaveLength(1)
  })

  test('sends one request for two providers that share a store in memory', async () => {
    await using server = await startProtectedServer()
    const store = memoryTokenStore()
    await authorized(server, { store })
    const tokens = await Promise.all([1, 2].map(() => refuse(server, user({ store }))))
    expect(tokens).toEqual(['access-2', 'access-2'])
    expect(server.of('/token')).toHaveLength(1)
    const ofProgram = { clientId: 'c', clientSecret: 's', store: memoryTokenStore() }
    const own = [1, 2].map(() => refuse(server, clientCredentials(ofProgram)))
    expect(await Promise.all(own)).toEqual(['access-3', 'access-3'])
  })

  test('loses no part of what two providers store at the same time', async () => {
    const store = memoryTokenStore()
    const [one, other] = [user({ store }), user({ store })]
    const client = { client_id: 'c' }
    await Promise.all([one.saveClientInformation?.(client), other.saveCodeVerifier('a-verifier')])
    expect(await store.read()).toMatchObject({ client, codeVerifier: 'a-verifier' })
  })

  test.each([
    ['/token', { status: 503 }, 'TOKEN_REFUSED'],
    ['/token', { status: 400, body: { error: 'temporarily_unavailable' } }, 'TOKEN_REFUSED'],
    ['/token', { status: 500, body: { error: 'server_error' } }, 'TOKEN_REFUSED'],
    [RESOURCE, { status: 503 }, 'DISCOVERY_FAILED'],
    [ISSUER, { status: 502 }, 'DISCOVERY_FAILED'],
  ])('does not ask the user if %s answers %j', async (path, page, code) => {
    await using server = await startProtectedServer()
    const provider = await authorized(server)
    server.behaviour.pages[path] = page
    await expect(refuse(server, provider)).rejects.toMatchObject({ code })
    expect((await provider.tokens())?.refresh_token).toBe('refresh-1')
    expect(sentTo).toHaveLength(1)
  })

  test('sends no data of one authorization server to another one, also for providers that drop the issuer', async () => {
    await using first = await startProtectedServer()
    await using second = await startProtectedServer()
    let isAway = false
    const redirect = (url: URL): unknown => (isAway ? undefined : browse(url))
    const provider = await authorized(first, { store: storeWithoutIssuers(), redirect })
    const client = await provider.clientInformation()
    nameIssuers(first, second.origin)
    isAway = true
    await expect(refuse(first, provider)).rejects.toMatchObject({ code: 'AUTHORIZATION_REQUIRED' })
    isAway = false
    expect(await refuse(first, provider)).toBe('access-1')
    const sent = second.seen.map(({ path, body }) => path + body).join('\n')
    expect(second.of('/register')).toHaveLength(1)
    expect(sent).not.toContain(client?.client_id)
    expect(sent).not.toContain('refresh-1')
  })

  test('sends no token of one MCP server to another one that shares its store by mistake', async () => {
    await using first = await startProtectedServer()
    await using second = await startProtectedServer()
    const store = memoryTokenStore()
    await authorized(first, { store })
    const authorizer = new Authorizer(user({ store }), new URL(second.url), fetch)
    await expect(authorizer.credential('POST')).resolves.toBeUndefined()
    expect(await refuse(second, user({ store }))).toBe('access-1')
    expect(JSON.stringify(second.seen)).not.toContain('refresh-1')
  })
})

function storeWithoutIssuers(): AuthProviderOptions['store'] {
  const store = memoryTokenStore()
  const without = <T extends { issuer?: string | undefined }>(value: T | undefined) =>
    value && { ...value, issuer: undefined }
  return {
    read: () => store.read(),
    write: ({ tokens, client, ...rest }) =>
      store.write({ ...rest, tokens: without(tokens), client: without(client) }),
  }
}

test('refuses a provider for a second origin', async () => {
  const provider = user()
  const serve = (url: string): Authorizer => new Authorizer(provider, new URL(url), fetch)
  serve('https://one.example/mcp')
  expect(() => serve('https://one.example/other')).not.toThrow()
  expect(() => serve('https://other.example/mcp')).toThrow(
    expect.objectContaining({ code: 'CONFIG', url: 'https://other.example/mcp' }),
  )
})

describe('metadata', () => {
  const page = { status: 200, headers: { 'content-type': 'text/html' }, body: 'welcome' }
  const away = { status: 302, headers: { location: 'https://elsewhere.test/' } }

  test.each([
    ['a page', page],
    ['a redirect', away],
  ])('counts as missing if the server answers with %s', async (_what, answer) => {
    await using server = await startProtectedServer()
    const root = RESOURCE.replace('/mcp', '')
    const openid = '/.well-known/openid-configuration'
    for (const path of [RESOURCE, root, ISSUER, openid]) server.behaviour.pages[path] = answer
    expect(await refuse(server, user())).toBe('access-1')
  })

  test('rejects with CLOSED if the transport is closed meanwhile', async () => {
    const closed = (): never => {
      throw new TransportError('CLOSED', 'The dispatcher of this transport was closed')
    }
    const authorizer = new Authorizer(user(), new URL('https://mcp.test/mcp'), closed)
    await expect(authorizer.renew(renewal())).rejects.toMatchObject({ code: 'CLOSED' })
  })

  test('is never read from this machine for a remote server', async () => {
    await using server = await startProtectedServer()
    const authorizer = new Authorizer(user(), new URL('https://mcp.test/mcp'), fetch)
    const renewed = authorizer.renew(
      renewal(`Bearer resource_metadata="${server.origin}${RESOURCE}"`),
    )
    await expect(renewed).rejects.toMatchObject({ code: 'INSECURE_URL' })
    expect(server.seen).toEqual([])
  })
})

test.each([
  [400, { error: 'invalid_redirect_uri' }, 'NOT_REGISTERED'],
  [403, undefined, 'NOT_REGISTERED'],
  [201, { client_id: {} }, 'INVALID_RESPONSE'],
])('fails if the registration is answered with %i %j', async (status, body, code) => {
  await using server = await startProtectedServer({ pages: { '/register': { status, body } } })
  const oauthError = status === 400 ? 'invalid_redirect_uri' : undefined
  await expect(refuse(server, user())).rejects.toMatchObject({ code, oauthError })
})

test.each([
  ['/token', { access_token: 'a-secret', token_type: 'mac', refresh_token: 'more-secret' }],
  ['/token', { access_token: { a: 'a-secret' }, token_type: 'Bearer' }],
  ['/token', '"a-secret'],
  ['/register', 'a-secret'],
])('puts no secret of the answer of %s into errors: %j', async (path, body) => {
  await using server = await startProtectedServer({ pages: { [path]: { status: 200, body } } })
  const error = await refuse(server, user()).catch((cause: unknown) => cause)
  expect(error).toMatchObject({ name: 'AuthError' })
  expect(inspect(error, { depth: 20, showHidden: true })).not.toContain('secret')
})

test('requests a token for a program with its secret, which only its issuer gets', async () => {
  await using server = await startProtectedServer({ scopesSupported: ['read'] })
  const secret = { clientId: 'c', clientSecret: 's' }
  const provider = clientCredentials({ ...secret, issuer: server.origin })
  expect(await refuse(server, provider)).toBe('access-1')
  expect((await provider.tokens())?.scope).toBe('read')
  const [request] = server.of('/token')
  expect(request?.headers.authorization).toBe(`Basic ${btoa('c:s')}`)
  expect(Object.fromEntries(request?.form ?? [])).toEqual({
    grant_type: 'client_credentials',
    scope: 'read',
    resource: server.url,
  })
  const other = clientCredentials({ ...secret, issuer: 'https://as.test' })
  await expect(refuse(server, other)).rejects.toMatchObject({ code: 'ISSUER_MISMATCH' })
  expect(server.of('/token')).toHaveLength(1)
})

test('stores two changes that are made at once', async () => {
  const provider = user()
  await Promise.all([
    provider.saveTokens({ access_token: 'a', token_type: 'Bearer' }),
    provider.saveClientInformation?.({ client_id: 'c' }),
  ])
  expect(await provider.tokens()).toMatchObject({ access_token: 'a' })
  expect(await provider.clientInformation()).toMatchObject({ client_id: 'c' })
})

test('passes on the members of a provider that only the library calls', async () => {
  await using server = await startProtectedServer()
  class Provider {
    #tokens: OAuthTokens | undefined
    readonly redirectUrl = undefined
    readonly clientMetadata = { redirect_uris: [] }
    #resource = ''
    clientInformation = () => ({ client_id: 'c', issuer: server.origin })
    tokens() {
      return this.#tokens
    }
    saveTokens(tokens: OAuthTokens) {
      this.#tokens = tokens
    }
    saveResourceUrl(resource: string) {
      this.#resource = resource
    }
    prepareTokenRequest() {
      return new URLSearchParams({ grant_type: 'client_credentials', audience: this.#resource })
    }
    redirectToAuthorization() {}
    saveCodeVerifier() {}
    codeVerifier = () => ''
  }
  expect(await refuse(server, new Provider())).toBe('access-1')
  expect(server.of('/token')[0]?.form.get('audience')).toBe(server.url)
})

test.each([
  '?code=a&state=s',
  'state=s&code=a',
  'http://127.0.0.1:7/cb?code=a&state=s',
  'com.app://cb?code=a&state=s',
  new URL('http://127.0.0.1:7/cb?code=a&state=s'),
  new URLSearchParams({ code: 'a', state: 's' }),
])('reads the callback %s', (callback) => {
  const parameters = callbackParameters(callback) ?? []
  expect(Object.fromEntries(parameters)).toEqual({ code: 'a', state: 's' })
})

test.each([
  undefined,
  null,
  'SplxlOBeZQQYbYS6WxSbIA',
  'YWJj/+x==',
  { code: 'a' },
  new URL('https://as.test/authorize?client_id=c&code_challenge=x'),
])('finds no parameters in %s', (value) => {
  expect(callbackParameters(value)).toBeUndefined()
})
