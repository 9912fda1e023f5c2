import { ClientCredentialsProvider } from '@modelcontextprotocol/client'
import { describe, expect, test } from 'vitest'
import {
  authErrorOf,
  ISSUER,
  nameIssuers,
  oauthUser,
  renewToken,
  RESOURCE,
} from '../../test/oauth-user.ts'
import { startProtectedServer } from '../../test/protected-server.ts'
import type { ProtectedServer } from '../../test/protected-server.ts'
import { AuthError } from './auth-provider.ts'
import type { OAuthClientProvider } from './auth-provider.ts'
import { withFinalSlash } from './discovery.ts'
import { clientCredentials } from './providers.ts'
import { memoryTokenStore } from './token-store.ts'

const { fetch, sentTo, user, leaves, signIn, comesBack, finish } = oauthUser()

const OPENID = '/.well-known/openid-configuration'

/** Metadata of an authorization server whose endpoints are those of `server`. */
function metadataOf(server: ProtectedServer, issuer: string): Record<string, unknown> {
  return {
    issuer,
    authorization_endpoint: `${server.origin}/authorize`,
    token_endpoint: `${server.origin}/token`,
    registration_endpoint: `${server.origin}/register`,
    response_types_supported: ['code'],
  }
}

function publish(server: ProtectedServer, path: string, issuer: string): void {
  server.behaviour.pages[ISSUER + path] = { status: 200, body: metadataOf(server, issuer) }
}

describe('an issuer that differs by a final slash', () => {
  test.each([
    ['', '', ''],
    ['', '', '/'],
    ['', '/', ''],
    ['', '/', '/'],
    ['/tenant', '', ''],
    ['/tenant', '', '/'],
    ['/tenant', '/', ''],
    ['/tenant', '/', '/'],
  ])('is the same issuer: path %j, named with %j, metadata with %j', async (path, named, own) => {
    await using server = await startProtectedServer()
    nameIssuers(server, server.origin + path + named)
    publish(server, path, server.origin + path + own)
    const provider = user()
    expect(await signIn(server, provider)).toBe('access-1')
    expect(await signIn(server, provider)).toBe('access-2')
    expect(server.of('/token').map(({ form }) => form.get('grant_type'))).toEqual([
      'authorization_code',
      'refresh_token',
    ])
    expect(server.of('/register')).toHaveLength(1)
  })

  test.each(['', '/'])('is the same issuer without resource metadata: %j', async (own) => {
    await using server = await startProtectedServer({ pages: { [RESOURCE]: { status: 404 } } })
    publish(server, '', server.origin + own)
    expect(await signIn(server, user())).toBe('access-1')
  })

  test.each([
    ['', '/'],
    ['/', ''],
  ])('is the issuer of a client: client with %j, metadata with %j', async (own, other) => {
    await using server = await startProtectedServer()
    publish(server, '', server.origin + other)
    const provider = user({ clientId: 'by hand', issuer: server.origin + own })
    expect(await signIn(server, provider)).toBe('access-1')
    const asProgram = clientCredentials({
      clientId: 'c',
      clientSecret: 's',
      issuer: server.origin + own,
    })
    expect(await signIn(server, asProgram)).toBe('access-2')
  })

  test('keeps the tokens and the client when the server changes the spelling', async () => {
    await using server = await startProtectedServer()
    const provider = user()
    await signIn(server, provider)
    publish(server, '', `${server.origin}/`)
    nameIssuers(server, `${server.origin}/`)
    expect(await signIn(server, provider)).toBe('access-2')
    expect([sentTo.length, server.of('/register').length]).toEqual([1, 1])
  })

  test.each([
    // Named, in the metadata, iss of the callback.
    ['', '/', '', 'accepted'],
    ['', '/', '/', 'accepted'],
    ['/', '', '', 'accepted'],
    ['/', '', '/', 'accepted'],
    // The specification forbids to accept a spelling that the server has not published.
    ['', '', '/', 'ISSUER_MISMATCH'],
    ['/', '/', '', 'ISSUER_MISMATCH'],
    ['', '/', '//', 'ISSUER_MISMATCH'],
  ])(
    'in iss: named with %j, metadata with %j, iss with %j: %s',
    async (...[named, own, iss, want]) => {
      await using server = await startProtectedServer()
      const issuer = `${server.origin}/tenant`
      nameIssuers(server, issuer + named)
      publish(server, '/tenant', issuer + own)
      const provider = leaves()
      await authErrorOf(signIn(server, provider))
      const callback = await comesBack()
      callback.searchParams.set('iss', issuer + iss)
      const outcome = await finish(server, provider, callback).then(
        () => 'accepted',
        (error: unknown) => (AuthError.is(error) ? error.code : error),
      )
      expect(outcome).toBe(want)
      expect(server.of('/token')).toHaveLength(want === 'accepted' ? 1 : 0)
    },
  )
})

test.each([
  ['', '/'],
  ['/', ''],
])(
  'a resource that differs by a final slash is the same one: %j, metadata %j',
  async (own, other) => {
    await using server = await startProtectedServer()
    const resource = server.url + other
    const body = { resource, authorization_servers: [server.origin] }
    server.behaviour.pages[RESOURCE] = { status: 200, body }
    const url = server.url + own
    expect(await renewToken(user(), { url, fetch })).toBe('access-1')
    expect(await renewToken(leaves(), { url, fetch }).catch(() => 'asked')).toBe('asked')
    expect(sentTo.map(({ searchParams }) => searchParams.get('resource'))).toEqual([
      resource,
      resource,
    ])
    expect(server.of('/token')[0]?.form.get('resource')).toBe(resource)
  },
)

describe('another issuer', () => {
  test.each([
    (origin: string) => origin.replace('127.0.0.1', 'localhost'),
    (origin: string) => origin.replace('http:', 'https:'),
    (origin: string) => `${origin}/other`,
    (origin: string) => `${origin}//`,
    (origin: string) => `${origin}/?`,
    () => 'https://evil.test',
  ])('in the metadata is refused, and the error shows both: %s', async (issuerFor) => {
    await using server = await startProtectedServer()
    const issuer = issuerFor(server.origin)
    publish(server, '', issuer)
    const error = await authErrorOf(signIn(server, user()))
    expect(error.code).toBe('ISSUER_MISMATCH')
    expect(error.message).toContain(`"${issuer.replace('?', '')}"`)
    expect(error.message).toContain(`"${server.origin}/"`)
    expect(server.of('/register')).toEqual([])
  })

  test('in the callback is refused, and the error shows both but no query', async () => {
    await using server = await startProtectedServer()
    const redirect = (url: URL): string =>
      `http://127.0.0.1:9/callback?code=c&state=${url.searchParams.get('state')}&iss=https://u:p@evil.test/x?q=secret`
    const error = await authErrorOf(signIn(server, user({ redirect })))
    expect(error.message).toContain('"https://evil.test/x"')
    expect(error.message).toContain(`"${server.origin}"`)
    expect(error.message).not.toMatch(/secret|u:p/)
  })

  test('of the client is refused, and the error shows both', async () => {
    await using server = await startProtectedServer()
    const error = await authErrorOf(
      signIn(server, user({ clientId: 'by hand', issuer: 'https://as.test' })),
    )
    expect(error.code).toBe('ISSUER_MISMATCH')
    expect(error.message).toContain('"https://as.test"')
    expect(error.message).toContain(`"${server.origin}"`)
  })
})

describe('PKCE', () => {
  test.each([[undefined], [null], [[]], [['plain', 'S256']]])(
    'uses S256 if the server lists the methods %j',
    async (methods) => {
      const metadata = { code_challenge_methods_supported: methods }
      await using server = await startProtectedServer({ metadata })
      expect(await signIn(server, user())).toBe('access-1')
      expect(sentTo[0]?.searchParams.get('code_challenge_method')).toBe('S256')
    },
  )

  test('uses S256 with an OpenID provider that lists no methods', async () => {
    await using server = await startProtectedServer({ pages: { [ISSUER]: { status: 404 } } })
    const body = {
      ...metadataOf(server, server.origin),
      jwks_uri: `${server.origin}/keys`,
      subject_types_supported: ['public'],
      id_token_signing_alg_values_supported: ['RS256'],
    }
    server.behaviour.pages[OPENID] = { status: 200, body }
    expect(await signIn(server, user())).toBe('access-1')
    expect(sentTo[0]?.searchParams.get('code_challenge_method')).toBe('S256')
  })

  test('refuses a server that lists methods without S256', async () => {
    const metadata = { code_challenge_methods_supported: ['plain'] }
    await using server = await startProtectedServer({ metadata })
    await expect(signIn(server, user())).rejects.toThrow('S256')
    expect(sentTo).toEqual([])
  })
})

/** An MCP server that names no authorization server, and has none at its origin. */
async function startUnnamed(): Promise<ProtectedServer> {
  const missing = { status: 404 }
  const root = RESOURCE.replace('/mcp', '')
  const pages = { [RESOURCE]: missing, [root]: missing, [ISSUER]: missing, [OPENID]: missing }
  return startProtectedServer({ pages })
}

/** A provider of the SDK: keeps everything in memory, and names the authorization server with its state. */
function providerWithState(
  state: ReturnType<NonNullable<OAuthClientProvider['discoveryState']>>,
): OAuthClientProvider {
  return { ...user(), saveDiscoveryState: () => {}, discoveryState: () => state }
}

describe('a server without resource metadata', () => {
  const servers = [
    (issuer: string) => user({ issuer }),
    (issuer: string) => user({ issuer: `${issuer}/` }),
    (issuer: string) => user({ issuer, clientId: 'by hand' }),
    (issuer: string) => clientCredentials({ clientId: 'c', clientSecret: 's', issuer }),
    (issuer: string) =>
      new ClientCredentialsProvider({ clientId: 'c', clientSecret: 's', expectedIssuer: issuer }),
    (issuer: string) => providerWithState({ authorizationServerUrl: issuer }),
  ]

  test.each(servers)('uses the authorization server that the provider names: %#', async (make) => {
    await using server = await startUnnamed()
    await using other = await startProtectedServer()
    expect(await signIn(server, make(other.origin))).toBe('access-1')
    expect(other.of('/token')).toHaveLength(1)
    expect(server.seen.filter(({ method }) => method === 'POST')).toEqual([])
  })

  test.each([null, [], undefined])(
    'counts metadata with the authorization servers %j as such',
    async (authorization_servers) => {
      await using server = await startUnnamed()
      await using other = await startProtectedServer()
      const body = { resource: server.url, authorization_servers, scopes_supported: null }
      server.behaviour.pages[RESOURCE] = { status: 200, body }
      expect(await signIn(server, user({ issuer: other.origin }))).toBe('access-1')
      expect(other.of('/token')[0]?.form.get('resource')).toBe(server.url)
    },
  )

  test('uses the metadata in the state of a provider for a server that publishes none', async () => {
    await using server = await startUnnamed()
    await using other = await startUnnamed()
    const provider = providerWithState({
      authorizationServerUrl: `${other.origin}/login`,
      authorizationServerMetadata: {
        ...metadataOf(other, `${other.origin}/login`),
        issuer: `${other.origin}/login`,
      },
    })
    expect(await signIn(server, provider)).toBe('access-1')
    expect(other.of('/token')).toHaveLength(1)
  })

  test('refreshes and completes the callback in another process at the same server', async () => {
    await using server = await startUnnamed()
    await using other = await startProtectedServer()
    const options = { issuer: other.origin, store: memoryTokenStore() }
    await authErrorOf(signIn(server, leaves(options)))
    await finish(server, leaves(options), await comesBack())
    expect(await signIn(server, leaves(options))).toBe('access-2')
    expect(other.of('/token')).toHaveLength(2)
  })

  test('refreshes at the server of an earlier authorization, with metadata that are read again', async () => {
    await using server = await startUnnamed()
    await using other = await startProtectedServer()
    const missing = server.behaviour.pages[RESOURCE]
    nameIssuers(server, other.origin)
    const provider = user()
    await signIn(server, provider)
    Object.assign(server.behaviour.pages, { [RESOURCE]: missing })
    other.seen.length = 0
    expect(await signIn(server, provider)).toBe('access-2')
    expect(other.seen.map(({ path }) => path)).toEqual([ISSUER, '/token'])
  })

  test.each([undefined, null])(
    'uses the origin of the MCP server if nobody names another: %j',
    async (state) => {
      await using server = await startProtectedServer({ pages: { [RESOURCE]: { status: 404 } } })
      const provider = { ...user(), discoveryState: () => state as undefined }
      expect(await signIn(server, provider)).toBe('access-1')
    },
  )
})

test('reads each document once for a refresh that fails and the authorization after it', async () => {
  await using server = await startProtectedServer()
  const provider = user()
  await signIn(server, provider)
  server.seen.length = 0
  server.behaviour.pages['/token'] = ({ form }) =>
    form.has('refresh_token') ? { status: 400, body: { error: 'invalid_grant' } } : undefined
  expect(await signIn(server, provider)).toBe('access-2')
  expect([server.of(RESOURCE).length, server.of(ISSUER).length]).toEqual([1, 1])
})

test.each([
  ['https://as.test', 'https://as.test/'],
  ['https://as.test/a', 'https://as.test/a/'],
  ['https://as.test/a/', 'https://as.test/a/'],
  ['https://as.test/a?b', 'https://as.test/a?b'],
])('writes the issuer %s as %s for the library', (authorizationServerUrl, expected) => {
  expect(withFinalSlash({ authorizationServerUrl })).toEqual({ authorizationServerUrl: expected })
})

describe('the issuer of a provider', () => {
  test('chooses among the authorization servers of the metadata', async () => {
    await using server = await startProtectedServer()
    await using other = await startProtectedServer()
    nameIssuers(server, server.origin, `${other.origin}/`)
    expect(await signIn(server, user({ issuer: other.origin }))).toBe('access-1')
    expect([server.of('/register').length, other.of('/register').length]).toEqual([0, 1])
  })

  test('refuses metadata that list only others, and sends them nothing', async () => {
    await using server = await startProtectedServer()
    await using other = await startProtectedServer()
    nameIssuers(server, other.origin, 'https://third.test')
    const error = await authErrorOf(signIn(server, user({ issuer: server.origin })))
    expect(error.code).toBe('ISSUER_MISMATCH')
    for (const issuer of [server.origin, other.origin, 'https://third.test']) {
      expect(error.message).toContain(`"${issuer}"`)
    }
    expect(other.seen).toEqual([])
  })

  test('follows the metadata to another server, although an earlier state is stored', async () => {
    await using server = await startProtectedServer()
    await using other = await startProtectedServer()
    const store = memoryTokenStore()
    await signIn(server, user({ store }))
    nameIssuers(server, other.origin)
    await signIn(server, user({ store }))
    expect(other.of('/register')).toHaveLength(1)
  })

  test('gives way to a state of the provider that names only a server', async () => {
    await using server = await startProtectedServer()
    await using other = await startProtectedServer()
    const provider = providerWithState({ authorizationServerUrl: other.origin })
    expect(await signIn(server, provider)).toBe('access-1')
    expect(other.of('/token')[0]?.form.get('resource')).toBe(server.url)
  })
})
