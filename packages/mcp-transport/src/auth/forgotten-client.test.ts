import { describe, expect, test, vi } from 'vitest'
import {
  authErrorOf,
  nameIssuers,
  oauthUser,
  REDIRECT_URL,
  renewToken,
} from '../../test/oauth-user.ts'
import { browse, startProtectedServer } from '../../test/protected-server.ts'
import type { ProtectedServer } from '../../test/protected-server.ts'
import type { OAuthClientProvider } from './auth-provider.ts'
import { loopbackOAuth } from './providers.ts'
import type { AuthProviderOptions } from './providers.ts'
import { memoryTokenStore } from './token-store.ts'

const { fetch, sentTo, user, leaves, signIn, comesBack, finish } = oauthUser()

/** Lets the server know only the clients that register from now on. Returns the number of registrations so far. */
function forgetClients(server: ProtectedServer, error = 'invalid_client'): () => number {
  const known: string[] = []
  const { pages } = server.behaviour
  pages['/register'] = ({ body }) => {
    known.push(`client-${known.length + 1}`)
    return { status: 201, body: { ...JSON.parse(body), client_id: known.at(-1) } }
  }
  pages['/token'] = ({ form }) =>
    known.includes(form.get('client_id') ?? '') ? undefined : { status: 401, body: { error } }
  return () => known.length
}

/** Sends the user back with an error. */
const sendsBack =
  (error: string) =>
  (url: URL): string => {
    sentTo.push(url)
    const { searchParams } = url
    return `${searchParams.get('redirect_uri')}?error=${error}&state=${searchParams.get('state')}`
  }

const clientsOf = (urls: readonly URL[]): (string | null)[] =>
  urls.map(({ searchParams }) => searchParams.get('client_id'))

const OTHER = { client_id: 'client-1', redirect_uris: [REDIRECT_URL] }

/** Stores a client in the way of a registration that the server has forgotten since. */
async function withDeadClient(provider: OAuthClientProvider): Promise<OAuthClientProvider> {
  await provider.saveClientInformation?.({
    client_id: 'dead',
    redirect_uris: [REDIRECT_URL],
    issuer: undefined,
  })
  return provider
}

/** Providers that nobody may register again. */
const STATIC_CLIENTS: Record<
  string,
  (options?: Partial<AuthProviderOptions>) => OAuthClientProvider
> = {
  'a client id in the options': (options) => user({ clientId: 'by hand', ...options }),
  'a provider with a client id that also could save one': (options) => ({
    ...user(options),
    clientInformation: () => ({ client_id: 'by hand' }),
    saveClientInformation: vi.fn<() => void>(),
    invalidateCredentials: () => {},
  }),
  'a client id metadata document': (options) =>
    user({ clientMetadataUrl: 'https://app.test/client.json', ...options }),
}

describe('a registration that the server has forgotten', () => {
  test.each(['invalid_client', 'unauthorized_client'])(
    'is made again once after %s for the code',
    async (error) => {
      await using server = await startProtectedServer()
      const registrations = forgetClients(server, error)
      const provider = await withDeadClient(user({ issuer: server.origin }))
      expect(await signIn(server, provider)).toBe('access-1')
      expect(clientsOf(sentTo)).toEqual(['dead', 'client-1'])
      expect(registrations()).toBe(1)
      expect(await provider.clientInformation()).toMatchObject({ client_id: 'client-1' })
    },
  )

  test.each([
    [422, { message: 'Unrecognized client_id' }],
    [400, { error: null, message: 'client not found' }],
    [404, 'Unknown client'],
    [401, { detail: 'Client was not recognised' }],
  ])('is recognised by the text of HTTP %i %j', async (status, body) => {
    await using server = await startProtectedServer()
    forgetClients(server)
    const token = server.behaviour.pages['/token']
    server.behaviour.pages['/token'] = (request) => {
      const usual = typeof token === 'function' ? token(request) : undefined
      return usual && { status, body }
    }
    expect(await signIn(server, await withDeadClient(user()))).toBe('access-1')
    expect(clientsOf(sentTo)).toEqual(['dead', 'client-1'])
  })

  test.each([
    [500, { message: 'client not found' }],
    [400, { error: 'invalid_request', message: 'Unknown client' }],
    [403, 'Access of unknown client refused'],
    [429, { message: 'Unknown client' }],
  ])('is not recognised by HTTP %i %j', async (status, body) => {
    await using server = await startProtectedServer()
    const registrations = forgetClients(server)
    server.behaviour.pages['/token'] = { status, body }
    const error = await authErrorOf(signIn(server, await withDeadClient(user())))
    expect(error).toMatchObject({ code: 'TOKEN_REFUSED' })
    expect(registrations()).toBe(0)
  })

  test.each(['invalid_client', 'unauthorized_client'])(
    'is made again once after the callback ?error=%s',
    async (error) => {
      await using server = await startProtectedServer()
      const registrations = forgetClients(server)
      const failing = sendsBack(error)
      const redirect = (url: URL): unknown =>
        url.searchParams.get('client_id') === 'dead' ? failing(url) : browse(url)
      expect(await signIn(server, await withDeadClient(user({ redirect })))).toBe('access-1')
      expect(registrations()).toBe(1)
    },
  )

  test.each([
    ['the code', undefined],
    ['the callback', 'invalid_client'],
  ])('is not made again without end if the server always refuses %s', async (_what, error) => {
    await using server = await startProtectedServer()
    const registrations = forgetClients(server)
    server.behaviour.pages['/token'] = { status: 401, body: { error: 'invalid_client' } }
    const options = error === undefined ? {} : { redirect: sendsBack(error) }
    const provider = await withDeadClient(user(options))
    expect(await authErrorOf(signIn(server, provider))).toMatchObject({
      oauthError: 'invalid_client',
    })
    expect([sentTo.length, registrations()]).toEqual([2, 1])
  })

  test('is made again once after a refresh, and not once more after the code', async () => {
    await using server = await startProtectedServer()
    const provider = user()
    await signIn(server, provider)
    const registrations = forgetClients(server)
    server.behaviour.pages['/token'] = { status: 401, body: { error: 'invalid_client' } }
    expect(await authErrorOf(signIn(server, provider))).toMatchObject({
      oauthError: 'invalid_client',
    })
    expect([sentTo.length, registrations()]).toEqual([2, 1])
  })

  test('is removed by finishAuth(), so that the next authorization registers the client', async () => {
    await using server = await startProtectedServer()
    const registrations = forgetClients(server)
    const store = memoryTokenStore()
    await withDeadClient(leaves({ store }))
    await authErrorOf(signIn(server, leaves({ store })))
    const error = await authErrorOf(finish(server, leaves({ store }), await comesBack()))
    expect(error).toMatchObject({ code: 'TOKEN_REFUSED', oauthError: 'invalid_client' })
    expect(error.message).toContain('again')
    await authErrorOf(signIn(server, leaves({ store })))
    await finish(server, leaves({ store }), await comesBack())
    expect([registrations(), (await leaves({ store }).tokens())?.access_token]).toEqual([
      1,
      'access-1',
    ])
  })

  test('is made again once for a grant without a user', async () => {
    await using server = await startProtectedServer()
    const registrations = forgetClients(server)
    const provider: OAuthClientProvider = {
      ...(await withDeadClient(user())),
      redirectUrl: undefined,
      prepareTokenRequest: () => new URLSearchParams({ grant_type: 'client_credentials' }),
    }
    expect(await signIn(server, provider)).toBe('access-1')
    expect(registrations()).toBe(1)
  })

  test.each(['code', 'refresh'])(
    'is made again for a provider that cannot remove it: %s',
    async (step) => {
      await using server = await startProtectedServer()
      const provider = { ...user(), invalidateCredentials: undefined as never }
      if (step === 'refresh') await signIn(server, provider)
      else await withDeadClient(provider)
      const registrations = forgetClients(server)
      expect(await signIn(server, provider)).toMatch(/^access-/)
      expect(registrations()).toBe(1)
    },
  )

  test('is kept if another process has registered the client meanwhile', async () => {
    await using server = await startProtectedServer()
    const registrations = forgetClients(server)
    const store = memoryTokenStore()
    const provider = await withDeadClient(user({ store }))
    const usual = server.behaviour.pages['/token']
    server.behaviour.pages['/token'] = (request) => {
      if (request.form.get('client_id') === 'dead') {
        void provider.saveClientInformation?.({ ...OTHER, issuer: server.origin })
      }
      return typeof usual === 'function' ? usual(request) : usual
    }
    await globalThis.fetch(`${server.origin}/register`, { method: 'POST', body: '{}' })
    expect(await signIn(server, user({ store }))).toBe('access-1')
    expect(clientsOf(sentTo)).toEqual(['dead', 'client-1'])
    expect(registrations()).toBe(1)
  })

  test('keeps the tokens of another authorization server', async () => {
    await using server = await startProtectedServer()
    await using other = await startProtectedServer()
    const store = memoryTokenStore()
    const provider = user({ store })
    await signIn(server, provider)
    const tokens = await provider.tokens()
    nameIssuers(server, other.origin)
    other.behaviour.pages['/token'] = { status: 401, body: { error: 'invalid_client' } }
    await authErrorOf(signIn(server, provider))
    expect(await provider.tokens()).toEqual(tokens)
    nameIssuers(server, server.origin)
    expect(await signIn(server, provider)).toBe('access-2')
  })

  test.each(Object.entries(STATIC_CLIENTS))('is never made for %s', async (_what, make) => {
    const metadata = { client_id_metadata_document_supported: true }
    await using server = await startProtectedServer({ metadata })
    const registrations = forgetClients(server)
    const provider = make()
    const error = await authErrorOf(signIn(server, provider))
    expect(error).toMatchObject({ code: 'TOKEN_REFUSED', oauthError: 'invalid_client' })
    expect([sentTo.length, registrations()]).toEqual([1, 0])
    const redirect = sendsBack('invalid_client')
    await authErrorOf(signIn(server, make({ redirect })))
    expect([sentTo.length, registrations()]).toEqual([2, 0])
  })
})

describe('a user who never comes back', () => {
  /** Signs in again and again, each time in another process. Returns the clients that were used. */
  async function ignore(server: ProtectedServer, times: number): Promise<(string | null)[]> {
    const store = memoryTokenStore()
    await withDeadClient(leaves({ store }))
    for (let time = 0; time < times; time++) {
      const error = await authErrorOf(signIn(server, leaves({ store })))
      expect(error.code).toBe('AUTHORIZATION_REQUIRED')
    }
    return clientsOf(sentTo)
  }

  test('twice is sent with another registration the third time, and then with the same', async () => {
    await using server = await startProtectedServer()
    forgetClients(server)
    expect(await ignore(server, 8)).toEqual([
      'dead',
      'dead',
      ...Array.from({ length: 6 }, () => 'client-1'),
    ])
  })

  test.each([
    ['offers none', { registration_endpoint: undefined }, {}],
    ['refuses it', {}, { '/register': { status: 403 } }],
    ['fails', {}, { '/register': { status: 503 } }],
  ])('is sent with the same registration if the server %s now', async (_what, metadata, pages) => {
    await using server = await startProtectedServer({ metadata, pages })
    expect(await ignore(server, 4)).toEqual(['dead', 'dead', 'dead', 'dead'])
  })

  test('is sent with another registration by loopbackOAuth after two time-outs', async () => {
    await using server = await startProtectedServer()
    forgetClients(server)
    const store = memoryTokenStore()
    const opened: URL[] = []
    const provider = (): OAuthClientProvider =>
      loopbackOAuth({ store, openBrowser: (url) => opened.push(url), waitMs: 20 })
    for (let time = 0; time < 4; time++) {
      expect((await authErrorOf(signIn(server, provider()))).code).toBe('TIMEOUT')
    }
    expect(clientsOf(opened)).toEqual(['client-1', 'client-1', 'client-2', 'client-2'])
  })

  test.each([
    ['agrees', (url: URL) => browse(url)],
    ['refuses', sendsBack('access_denied')],
  ])('begins again when a user comes back and %s', async (_what, redirect) => {
    await using server = await startProtectedServer()
    const registrations = forgetClients(server)
    const store = memoryTokenStore()
    for (let time = 0; time < 3; time++) {
      await authErrorOf(signIn(server, leaves({ store })))
      await signIn(server, user({ store, redirect })).catch(() => {})
      await leaves({ store }).invalidateCredentials?.('tokens')
    }
    expect(registrations()).toBe(1)
  })

  test('keeps the registration while a step-up is ignored, because its tokens are good', async () => {
    await using server = await startProtectedServer()
    const registrations = forgetClients(server)
    const store = memoryTokenStore()
    await signIn(server, user({ store }))
    for (let time = 0; time < 4; time++) {
      const challenge = 'Bearer error="insufficient_scope", scope="write"'
      await authErrorOf(renewToken(leaves({ store }), { url: server.url, fetch }, challenge))
    }
    expect(registrations()).toBe(1)
    expect(await signIn(server, leaves({ store }))).toBe('access-2')
  })

  test.each(Object.entries(STATIC_CLIENTS))('changes nothing for %s', async (_what, make) => {
    const metadata = { client_id_metadata_document_supported: true }
    await using server = await startProtectedServer({ metadata })
    const registrations = forgetClients(server)
    const provider = make({ redirect: (url) => void sentTo.push(url) })
    for (let time = 0; time < 4; time++) await authErrorOf(signIn(server, provider))
    expect([new Set(clientsOf(sentTo)).size, registrations()]).toEqual([1, 0])
  })
})
