import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Agent } from 'undici'
import { afterAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { browse, startProtectedServer } from '../../test/protected-server.ts'
import type { ProtectedServer } from '../../test/protected-server.ts'
import { createOAuthFetch } from '../http/http-client.ts'
import { AuthError } from './auth-provider.ts'
import type { OAuthClientProvider } from './auth-provider.ts'
import { Authorizer, oauthChallenge } from './authorizer.ts'
import { parseCallback, returnedCallback } from './oauth-flow.ts'
import { clientCredentials, createAuthProvider } from './providers.ts'
import type { AuthProviderOptions } from './providers.ts'
import { fileTokenStore, memoryTokenStore } from './token-store.ts'

const dispatcher = new Agent()
const oauthFetch = createOAuthFetch(dispatcher)
afterAll(() => dispatcher.destroy())

// The library warns about credentials that it does not trust. It must never get such credentials.
const warn = vi.spyOn(console, 'warn').mockImplementation((text) => {
  throw new Error(`Unexpected warning: ${text}`)
})
afterAll(() => warn.mockRestore())

let sentTo: URL[] = []
beforeEach(() => {
  sentTo = []
})

function userWhoAgrees(options: Partial<AuthProviderOptions> = {}): OAuthClientProvider {
  return createAuthProvider({
    redirectUrl: 'http://127.0.0.1:9/callback',
    clientName: 'test',
    redirect: (url) => {
      sentTo.push(url)
      return browse(url)
    },
    ...options,
  })
}

async function temporaryFolder(): Promise<AsyncDisposable & { path: string }> {
  const path = await mkdtemp(join(tmpdir(), 'oauth-'))
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true }) }
}

/** Handles a refusal in the same way as a transport. */
async function refuse(
  server: ProtectedServer,
  provider: OAuthClientProvider,
  challenge = `Bearer resource_metadata="${server.origin}/.well-known/oauth-protected-resource/mcp"`,
): Promise<string | undefined> {
  const authorizer = new Authorizer(provider, new URL(server.url))
  await renew(authorizer, challenge)
  return (await authorizer.credential('POST'))?.token
}

async function renew(authorizer: Authorizer, challenge: string): Promise<void> {
  const headers = { 'www-authenticate': challenge }
  const isStepUp = challenge.includes('insufficient_scope')
  await authorizer.renew({
    fetch: oauthFetch,
    signal: new AbortController().signal,
    refused: (await authorizer.credential('POST'))?.token,
    isStepUp,
    refusal: { status: isStepUp ? 403 : 401, headers, text: '' },
    challenge: oauthChallenge(headers),
  })
}

const finish = (
  server: ProtectedServer,
  provider: OAuthClientProvider,
  callback: string | URL,
): Promise<void> =>
  new Authorizer(provider, new URL(server.url)).finish(callback, {
    fetch: oauthFetch,
    signal: new AbortController().signal,
  })

/** A provider that does not wait for the user. */
function leaves(options: Partial<AuthProviderOptions> = {}): OAuthClientProvider {
  return userWhoAgrees({ redirect: (url) => sentTo.push(url), ...options })
}

async function sendAway(server: ProtectedServer, provider: OAuthClientProvider): Promise<URL> {
  await expect(refuse(server, provider)).rejects.toMatchObject({ code: 'AUTHORIZATION_REQUIRED' })
  return browse(sentTo.at(-1) ?? new URL('none:'))
}

async function authorized(
  server: ProtectedServer,
  options: Partial<AuthProviderOptions> = {},
): Promise<OAuthClientProvider> {
  const provider = userWhoAgrees(options)
  await refuse(server, provider)
  server.seen.length = 0
  return provider
}

describe('an authorization by the user', () => {
  test('registers the client, sends PKCE, state and resource, and exchanges the code for a token', async () => {
    await using server = await startProtectedServer()
    expect(await refuse(server, userWhoAgrees())).toBe('access-1')
    const registration = JSON.parse(server.of('POST /register')[0]?.body ?? '')
    expect(registration).toMatchObject({
      client_name: 'test',
      application_type: 'native',
      grant_types: ['authorization_code', 'refresh_token'],
    })
    expect(Object.fromEntries(sentTo[0]?.searchParams ?? [])).toMatchObject({
      response_type: 'code',
      code_challenge_method: 'S256',
      resource: server.url,
      redirect_uri: 'http://127.0.0.1:9/callback',
    })
    expect(Object.fromEntries(server.of('POST /token')[0]?.form ?? [])).toMatchObject({
      grant_type: 'authorization_code',
      resource: server.url,
      redirect_uri: 'http://127.0.0.1:9/callback',
    })
  })

  test('uses the stored registration for the next authorization', async () => {
    await using server = await startProtectedServer()
    const provider = userWhoAgrees()
    await refuse(server, provider)
    await provider.invalidateCredentials?.('tokens')
    await refuse(server, provider)
    expect(server.of('/register')).toHaveLength(1)
    expect(sentTo).toHaveLength(2)
  })

  test('needs no registration if the client id is the URL of a metadata document', async () => {
    await using server = await startProtectedServer({
      metadata: { client_id_metadata_document_supported: true },
    })
    const clientMetadataUrl = 'https://app.test/client.json'
    await refuse(server, userWhoAgrees({ clientMetadataUrl }))
    expect(server.of('/register')).toHaveLength(0)
    expect(sentTo[0]?.searchParams.get('client_id')).toBe(clientMetadataUrl)
  })

  test('requires an https URL with a path for the metadata document of a client', async () => {
    await using server = await startProtectedServer({
      metadata: { client_id_metadata_document_supported: true },
    })
    const provider = userWhoAgrees({ clientMetadataUrl: 'http://app.test/client.json' })
    await expect(refuse(server, provider)).rejects.toMatchObject({
      code: 'NOT_REGISTERED',
      message: expect.stringContaining('clientMetadataUrl'),
    })
    expect(sentTo).toEqual([])
  })

  test('uses a client id that the caller gives', async () => {
    await using server = await startProtectedServer()
    await refuse(server, userWhoAgrees({ clientId: 'by hand', clientSecret: 'a:b-c_d' }))
    expect(server.of('/register')).toHaveLength(0)
    const { authorization } = server.of('/token')[0]?.headers ?? {}
    const basic = Buffer.from(authorization?.replace('Basic ', '') ?? '', 'base64').toString()
    expect(basic).toBe('by+hand:a%3Ab-c_d')
  })

  test('never sends a client id of the caller to another authorization server', async () => {
    await using server = await startProtectedServer()
    const provider = userWhoAgrees({ clientId: 'by hand', issuer: 'https://other.test' })
    await expect(refuse(server, provider)).rejects.toMatchObject({ code: 'ISSUER_MISMATCH' })
    expect(sentTo).toEqual([])
  })

  test.each([undefined, ['plain']])(
    'refuses a server with the PKCE methods %j before it registers the client',
    async (methods) => {
      await using server = await startProtectedServer({
        metadata: { code_challenge_methods_supported: methods },
      })
      await expect(refuse(server, userWhoAgrees())).rejects.toMatchObject({
        code: 'PKCE_UNSUPPORTED',
      })
      expect(server.of('/register')).toHaveLength(0)
    },
  )

  test('requests offline_access with consent if the server lists that scope', async () => {
    await using server = await startProtectedServer({
      scopesSupported: ['read'],
      metadata: { scopes_supported: ['read', 'offline_access'] },
    })
    await refuse(server, userWhoAgrees())
    expect(sentTo[0]?.searchParams.get('scope')).toBe('read offline_access')
    expect(sentTo[0]?.searchParams.get('prompt')).toBe('consent')
  })

  test('requests the old and the new scopes for a step-up, without a refresh', async () => {
    await using server = await startProtectedServer({ scopesSupported: ['read'] })
    const provider = userWhoAgrees()
    await refuse(server, provider)
    await refuse(server, provider, 'Bearer error="insufficient_scope", scope="write"')
    expect(sentTo.map((url) => url.searchParams.get('scope'))).toEqual(['read', 'read write'])
    expect(server.of('/token').map(({ form }) => form.get('grant_type'))).toEqual([
      'authorization_code',
      'authorization_code',
    ])
  })

  test('rejects with DENIED if the user refuses', async () => {
    await using server = await startProtectedServer()
    const provider = userWhoAgrees({
      redirect: (url) =>
        `${server.origin}/cb?error=access_denied&state=${url.searchParams.get('state')}`,
    })
    await expect(refuse(server, provider)).rejects.toMatchObject({
      code: 'DENIED',
      oauthError: 'access_denied',
    })
    expect(server.of('/token')).toHaveLength(0)
  })

  test('refuses a callback with the state of another request', async () => {
    await using server = await startProtectedServer()
    const redirect = (): string => `${server.origin}/cb?code=stolen&state=other`
    await expect(refuse(server, userWhoAgrees({ redirect }))).rejects.toMatchObject({
      code: 'STATE_MISMATCH',
    })
    expect(server.of('/token')).toHaveLength(0)
  })

  test.each([
    ['wrong', true, 'https://evil.test'],
    ['missing', true, undefined],
    ['not announced, and wrong', false, 'https://evil.test'],
  ])('sends no code if the iss of the callback is %s', async (_what, isAdvertised, iss) => {
    await using server = await startProtectedServer({
      metadata: { authorization_response_iss_parameter_supported: isAdvertised },
      iss,
    })
    await expect(refuse(server, userWhoAgrees())).rejects.toMatchObject({ code: 'ISSUER_MISMATCH' })
    expect(server.of('/token')).toHaveLength(0)
  })

  test('ignores the error of a callback with a wrong iss', async () => {
    await using server = await startProtectedServer()
    const redirect = (): string => `${server.origin}/cb?error=buy_this&iss=https://evil.test`
    await expect(refuse(server, userWhoAgrees({ redirect }))).rejects.toMatchObject({
      code: 'ISSUER_MISMATCH',
      message: expect.not.stringContaining('buy_this'),
    })
  })

  test('accepts a callback with the right iss', async () => {
    await using server = await startProtectedServer({
      metadata: { authorization_response_iss_parameter_supported: true },
    })
    server.behaviour.iss = server.origin
    expect(await refuse(server, userWhoAgrees())).toBe('access-1')
  })
})

describe('finishAuth() after the callback', () => {
  test('accepts the whole callback', async () => {
    await using server = await startProtectedServer()
    const provider = leaves()
    await finish(server, provider, await sendAway(server, provider))
    expect((await provider.tokens())?.access_token).toBe('access-1')
  })

  test.each(['', ' ', '?state=s', 'http://127.0.0.1:9/callback?state=s'])(
    'throws a TypeError for the callback %j',
    async (callback) => {
      await using server = await startProtectedServer()
      await expect(finish(server, leaves(), callback)).rejects.toThrow(TypeError)
      expect(server.seen).toEqual([])
    },
  )

  test('accepts the code alone', async () => {
    await using server = await startProtectedServer()
    const provider = leaves()
    const callback = await sendAway(server, provider)
    await finish(server, provider, callback.searchParams.get('code') ?? '')
    expect((await provider.tokens())?.access_token).toBe('access-1')
  })

  test('refuses the code alone if the metadata announces iss', async () => {
    await using server = await startProtectedServer({
      metadata: { authorization_response_iss_parameter_supported: true },
    })
    const provider = leaves()
    const callback = await sendAway(server, provider)
    await expect(
      finish(server, provider, callback.searchParams.get('code') ?? ''),
    ).rejects.toMatchObject({
      code: 'ISSUER_MISMATCH',
      message: expect.stringContaining('whole query'),
    })
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
})

test.each([
  [true, (issuer: string) => issuer, 'accepted'],
  [true, () => undefined, 'ISSUER_MISMATCH'],
  [true, () => '', 'ISSUER_MISMATCH'],
  [true, () => 'https://evil.test', 'ISSUER_MISMATCH'],
  [true, (issuer: string) => `${issuer}/`, 'ISSUER_MISMATCH'],
  [true, (issuer: string) => issuer.replace('http', 'HTTP'), 'ISSUER_MISMATCH'],
  [false, (issuer: string) => issuer, 'accepted'],
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

test('sends no code to an authorization server that changed before the callback', async () => {
  await using server = await startProtectedServer()
  const store = memoryTokenStore()
  const callback = await sendAway(server, leaves({ store }))
  const { discovery } = (await store.read()) ?? {}
  await store.write({
    ...(await store.read()),
    v: 1,
    discovery: { ...discovery, authorizationServerUrl: 'https://as-before.test' },
  })
  await expect(finish(server, leaves({ store }), callback)).rejects.toMatchObject({
    code: 'ISSUER_MISMATCH',
  })
  expect(server.of('/token')).toHaveLength(0)
})

test('rejects with NOT_REGISTERED if the registration was deleted before the callback', async () => {
  await using server = await startProtectedServer()
  const store = memoryTokenStore()
  const callback = await sendAway(server, leaves({ store }))
  await store.write({ ...(await store.read()), v: 1, client: undefined })
  await expect(finish(server, leaves({ store }), callback)).rejects.toMatchObject({
    code: 'NOT_REGISTERED',
  })
  expect(server.of('/token')).toHaveLength(0)
})

test('accepts a metadata document as client id from a provider that cannot store a registration', async () => {
  await using server = await startProtectedServer({
    metadata: { client_id_metadata_document_supported: true },
  })
  const clientMetadataUrl = 'https://app.test/client.json'
  const provider = userWhoAgrees({ clientMetadataUrl })
  delete provider.saveClientInformation
  expect(await refuse(server, provider)).toBe('access-1')
  expect(server.of('/token')[0]?.form.get('client_id')).toBe(clientMetadataUrl)
})

describe('a refresh', () => {
  test('sends the resource, stores the new refresh token, and does not ask the user', async () => {
    await using server = await startProtectedServer()
    const provider = await authorized(server)
    expect(await refuse(server, provider)).toBe('access-2')
    const [request] = server.of('/token')
    expect(Object.fromEntries(request?.form ?? [])).toMatchObject({
      grant_type: 'refresh_token',
      refresh_token: 'refresh-1',
      resource: server.url,
    })
    expect((await provider.tokens())?.refresh_token).toBe('refresh-2')
    expect(sentTo).toHaveLength(1)
  })

  test('keeps the old refresh token if the server returns no new one', async () => {
    await using server = await startProtectedServer()
    const provider = await authorized(server)
    server.behaviour.token = () => ({
      status: 200,
      body: { access_token: 'new', token_type: 'bearer' },
    })
    expect(await refuse(server, provider)).toBe('new')
    expect((await provider.tokens())?.refresh_token).toBe('refresh-1')
  })

  test('asks the user if the refresh token is no longer valid', async () => {
    await using server = await startProtectedServer()
    const provider = await authorized(server)
    let isFirst = true
    server.behaviour.token = () => {
      if (!isFirst) return undefined
      isFirst = false
      return { status: 400, body: { error: 'invalid_grant' } }
    }
    expect(await refuse(server, provider)).toBe('access-2')
    expect(sentTo).toHaveLength(2)
  })

  test('uses the token that another process stored during the refresh', async () => {
    await using server = await startProtectedServer()
    const store = memoryTokenStore()
    const provider = await authorized(server, { store })
    server.behaviour.token = () => {
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
    await using folder = await temporaryFolder()
    const path = join(folder.path, 'shop.json')
    await authorized(server, { store: fileTokenStore(path) })
    const processes = [1, 2, 3].map(() => userWhoAgrees({ store: fileTokenStore(path) }))
    const tokens = await Promise.all(processes.map((provider) => refuse(server, provider)))
    expect(tokens).toEqual(['access-2', 'access-2', 'access-2'])
    expect(server.of('/token')).toHaveLength(1)
  })

  test.each([
    [503, 'busy'],
    [400, { error: 'temporarily_unavailable' }],
  ])('does not ask the user after a temporary failure (HTTP %i)', async (status, body) => {
    await using server = await startProtectedServer()
    const provider = await authorized(server)
    server.behaviour.token = () => ({ status, body })
    await expect(refuse(server, provider)).rejects.toMatchObject({ code: 'TOKEN_REFUSED' })
    expect((await provider.tokens())?.refresh_token).toBe('refresh-1')
    expect(sentTo).toHaveLength(1)
  })

  test('registers the client again if the server no longer knows it', async () => {
    await using server = await startProtectedServer()
    const provider = await authorized(server)
    let isFirst = true
    server.behaviour.token = () => {
      if (!isFirst) return undefined
      isFirst = false
      return { status: 401, body: { error: 'invalid_client' } }
    }
    expect(await refuse(server, provider)).toBe('access-2')
    expect(server.of('/register')).toHaveLength(1)
  })

  test('sends no data of one authorization server to another one', async () => {
    await using first = await startProtectedServer()
    await using second = await startProtectedServer()
    const store = memoryTokenStore()
    const client = await (await authorized(first, { store })).clientInformation()
    // A store that two providers share by mistake.
    expect(await refuse(second, userWhoAgrees({ store }))).toBe('access-1')
    const sent = second.seen.map(({ path, body }) => path + body).join('\n')
    expect(second.of('/register')).toHaveLength(1)
    expect(sent).not.toContain(client?.client_id)
    expect(sent).not.toContain('refresh-1')
  })
})

test('refuses a provider for a second origin', async () => {
  await using server = await startProtectedServer()
  const provider = await authorized(server)
  expect(() => new Authorizer(provider, new URL(`${server.origin}/other`))).not.toThrow()
  expect(() => new Authorizer(provider, new URL('https://other.example/mcp'))).toThrow(
    expect.objectContaining({ code: 'CONFIG', url: 'https://other.example/mcp' }),
  )
})

test('sends nothing to an authorization server if the metadata describes another server', async () => {
  await using server = await startProtectedServer()
  await using other = await startProtectedServer()
  const challenge = `Bearer resource_metadata="${other.origin}/.well-known/oauth-protected-resource/mcp"`
  await expect(refuse(server, userWhoAgrees(), challenge)).rejects.toMatchObject({
    code: 'RESOURCE_MISMATCH',
  })
  const asked = [...server.seen, ...other.seen].map(({ path }) => path)
  expect(asked).toEqual(['/.well-known/oauth-protected-resource/mcp'])
})

test('puts no secret into errors', async () => {
  await using server = await startProtectedServer()
  const provider = userWhoAgrees()
  server.behaviour.token = () => ({
    status: 200,
    body: { access_token: 'a-secret', token_type: 'mac', refresh_token: 'more-secret' },
  })
  const error = await refuse(server, provider).catch((cause: unknown) => cause)
  const { inspect } = await import('node:util')
  expect(error).toMatchObject({ code: 'INVALID_RESPONSE' })
  expect(inspect(error, { depth: 20, showHidden: true })).not.toContain('secret')
})

const secret = { client_secret: 's' }
test.each([
  [{}, undefined, 'none'],
  [{}, ['client_secret_basic'], 'none'],
  [{ client_secret: '' }, ['client_secret_basic'], 'none'],
  [secret, undefined, 'basic'],
  [secret, ['client_secret_post', 'client_secret_basic'], 'basic'],
  [secret, ['client_secret_post'], 'post'],
  [secret, ['none'], 'none'],
  [{ ...secret, token_endpoint_auth_method: 'client_secret_post' }, undefined, 'post'],
  [
    { ...secret, token_endpoint_auth_method: 'client_secret_post' },
    ['client_secret_basic', 'client_secret_post'],
    'post',
  ],
  [
    { ...secret, token_endpoint_auth_method: 'client_secret_post' },
    ['client_secret_basic'],
    'basic',
  ],
])(
  'authenticates a client %j at a server with the methods %j by %s',
  async (client, methods, expected) => {
    await using server = await startProtectedServer({
      metadata: { token_endpoint_auth_methods_supported: methods },
    })
    const base = clientCredentials({ clientId: 'c', clientSecret: 's' })
    await refuse(server, { ...base, clientInformation: () => ({ client_id: 'c', ...client }) })
    const [request] = server.of('/token')
    const inBody = request?.form.get('client_secret') === 's' ? 'post' : 'none'
    expect(request?.headers.authorization === undefined ? inBody : 'basic').toBe(expected)
    expect(request?.form.get('client_id')).toBe(expected === 'basic' ? null : 'c')
  },
)

describe('clientCredentials', () => {
  test('requests a token with the secret, without a user', async () => {
    await using server = await startProtectedServer({ scopesSupported: ['read'] })
    const provider = clientCredentials({ clientId: 'c', clientSecret: 's' })
    expect(await refuse(server, provider)).toBe('access-1')
    const [request] = server.of('/token')
    expect(request?.headers.authorization).toBe(`Basic ${btoa('c:s')}`)
    expect(Object.fromEntries(request?.form ?? [])).toEqual({
      grant_type: 'client_credentials',
      scope: 'read',
      resource: server.url,
    })
  })

  test('sends the secret in the body with client_secret_post', async () => {
    await using server = await startProtectedServer({
      metadata: { token_endpoint_auth_methods_supported: undefined },
    })
    const tokenEndpointAuthMethod = 'client_secret_post'
    await refuse(
      server,
      clientCredentials({ clientId: 'c', clientSecret: 's', tokenEndpointAuthMethod }),
    )
    expect(server.of('/token')[0]?.form.get('client_secret')).toBe('s')
  })

  test('sends the secret to its issuer only', async () => {
    await using server = await startProtectedServer()
    const provider = clientCredentials({
      clientId: 'c',
      clientSecret: 's',
      issuer: 'https://as.test',
    })
    await expect(refuse(server, provider)).rejects.toMatchObject({ code: 'ISSUER_MISMATCH' })
    expect(server.of('/token')).toHaveLength(0)
  })
})

test.each([
  ['?code=a&state=s&iss=https%3A%2F%2Fas.test', false],
  ['code=a&state=s&iss=https%3A%2F%2Fas.test', false],
  ['state=s&iss=https%3A%2F%2Fas.test&code=a', false],
  ['http://127.0.0.1:7/cb?code=a&state=s&iss=https%3A%2F%2Fas.test', false],
  ['com.app://cb?code=a&state=s&iss=https%3A%2F%2Fas.test', false],
  [new URL('http://127.0.0.1:7/cb?code=a&state=s&iss=https%3A%2F%2Fas.test'), false],
  [new URLSearchParams({ code: 'a', state: 's', iss: 'https://as.test' }), false],
])('reads %s as a whole callback', (callback, isBareCode) => {
  const answer = parseCallback(callback)
  expect(answer.isBareCode).toBe(isBareCode)
  expect(Object.fromEntries(answer.parameters)).toEqual({
    code: 'a',
    state: 's',
    iss: 'https://as.test',
  })
})

test.each(['SplxlOBeZQQYbYS6WxSbIA', 'YWJj/+x==', '4/0Adeu5B-x'])('reads %s as a code', (code) => {
  const { parameters, isBareCode } = parseCallback(code)
  expect([parameters.get('code'), isBareCode]).toEqual([code, true])
})

test.each([
  undefined,
  null,
  'a-bare-code',
  { code: 'a' },
  new URL('https://as.test/authorize?client_id=c&code_challenge=x'),
  'https://as.test/authorize?client_id=c',
])('ignores the return value %s of redirectToAuthorization()', (value) => {
  expect(returnedCallback(value)).toBeUndefined()
})

test('reads a callback that redirectToAuthorization() returns', () => {
  expect(returnedCallback('http://127.0.0.1:7/cb?error=access_denied')).toMatchObject({
    isBareCode: false,
  })
})
