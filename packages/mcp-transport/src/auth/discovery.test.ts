import { handlerDispatcher } from '@x/internal/testing/undici'
// The documents that are read, and the authorization requests that follow from them.
import { describe, expect, test } from 'vitest'
import { createOAuthFetch } from '../http/http-client.ts'
import type { OAuthClientInformation, OAuthClientProvider } from './auth-provider.ts'
import { Authorizer, oauthChallenge } from './authorizer.ts'
import { secureUrl } from './discovery.ts'
import { createAuthProvider } from './providers.ts'
import type { AuthProviderOptions } from './providers.ts'

const RESOURCE = '/.well-known/oauth-protected-resource'
const OAUTH = '/.well-known/oauth-authorization-server'
const OPENID = '/.well-known/openid-configuration'

/** Complete metadata of an authorization server. */
function authorizationServer(issuer: string, more: object = {}): object {
  const { origin } = new URL(issuer)
  return {
    issuer,
    authorization_endpoint: `${origin}/authorize`,
    token_endpoint: `${origin}/token`,
    registration_endpoint: `${origin}/register`,
    response_types_supported: ['code'],
    code_challenge_methods_supported: ['S256'],
    jwks_uri: `${origin}/jwks`,
    subject_types_supported: ['public'],
    id_token_signing_alg_values_supported: ['ES256'],
    ...more,
  }
}

interface Site {
  readonly server?: string
  /** By URL: a JSON document, a status, or a response. 404 for any other URL. */
  readonly pages?: Record<string, unknown>
  readonly challenge?: string
  readonly client?: Partial<AuthProviderOptions>
  readonly provider?: (provider: OAuthClientProvider) => OAuthClientProvider
}

/** Handles one 401, up to the redirect of the user. */
async function authorize({
  server = 'https://mcp.test/a/mcp',
  pages = {},
  challenge,
  client = {},
  provider = (one) => one,
}: Site): Promise<{ asked: string[]; sentTo: URL; registered: Record<string, unknown> }> {
  const asked: string[] = []
  let sentTo: URL | undefined
  let registered: Record<string, unknown> = {}
  const dispatcher = handlerDispatcher(async (request) => {
    asked.push(request.url)
    const page = pages[request.url]
    if (request.method === 'POST') registered = JSON.parse(await request.text())
    if (page instanceof Response) return page.clone()
    if (typeof page === 'number') return new Response('trouble', { status: page })
    if (page !== undefined) return Response.json(page)
    if (request.method === 'POST') return Response.json({ ...registered, client_id: 'c' })
    return new Response('no', { status: 404 })
  })
  const base = createAuthProvider({
    redirectUrl: 'http://127.0.0.1:9/callback',
    redirect: (url) => (sentTo = url),
    ...client,
  })
  const headers = challenge === undefined ? {} : { 'www-authenticate': `Bearer ${challenge}` }
  const renewed = new Authorizer(provider(base), new URL(server)).renew({
    fetch: createOAuthFetch(dispatcher),
    signal: new AbortController().signal,
    refused: undefined,
    refusal: { status: 401, headers: {}, text: '' },
    challenge: oauthChallenge(headers),
    isStepUp: false,
  })
  const error: unknown = await renewed.catch((cause: unknown) => cause)
  if (sentTo === undefined) throw Object.assign(error as Error, { asked })
  return { asked, sentTo, registered }
}

describe('metadata of the MCP server', () => {
  const metadata = {
    resource: 'https://mcp.test/a/mcp',
    authorization_servers: ['https://as.test'],
  }
  const as = { [`https://as.test${OAUTH}`]: authorizationServer('https://as.test') }

  test('is read at the URL of the challenge first', async () => {
    const { asked, sentTo } = await authorize({
      challenge: 'resource_metadata="https://mcp.test/meta?x=1"',
      pages: {
        'https://mcp.test/meta?x=1': { ...metadata, scopes_supported: ['s'] },
        [`https://mcp.test${RESOURCE}`]: { resource: 'https://mcp.test' },
        ...as,
      },
    })
    expect(asked.slice(0, 2)).toEqual(['https://mcp.test/meta?x=1', `https://as.test${OAUTH}`])
    expect(sentTo.searchParams.get('resource')).toBe('https://mcp.test/a/mcp')
    expect(sentTo.searchParams.get('scope')).toBe('s')
  })

  test.each(['resource_metadata="https://mcp.test/none"', 'resource_metadata="not a url"'])(
    'is read at the well-known URLs, the root last, if the challenge has %s',
    async (challenge) => {
      const { asked, sentTo } = await authorize({
        challenge,
        pages: {
          [`https://mcp.test${RESOURCE}`]: { ...metadata, resource: 'https://mcp.test' },
          ...as,
        },
      })
      expect(asked.filter((url) => url.includes(RESOURCE))).toEqual([
        `https://mcp.test${RESOURCE}/a/mcp`,
        `https://mcp.test${RESOURCE}`,
      ])
      expect(sentTo.searchParams.get('resource')).toBe('https://mcp.test')
    },
  )

  test.each([
    ['https://mcp.test/', 'https://mcp.test'],
    ['https://mcp.test/mcp#part', 'https://mcp.test/mcp'],
  ])('is optional: without it, the resource of %s is %s', async (server, resource) => {
    const { sentTo } = await authorize({ server })
    expect(sentTo.searchParams.get('resource')).toBe(resource)
  })

  test.each(['https://evil.test/a/mcp', 'https://mcp.test/a/m', 'https://mcp.test/a/mcp/more'])(
    'is refused if its resource is %s',
    async (resource) => {
      const pages = { [`https://mcp.test${RESOURCE}/a/mcp`]: { ...metadata, resource }, ...as }
      await expect(authorize({ pages })).rejects.toMatchObject({
        code: 'RESOURCE_MISMATCH',
        asked: [`https://mcp.test${RESOURCE}/a/mcp`],
      })
    },
  )

  test.each(['https://mcp.test/a/mcp', 'https://mcp.test/a', 'https://mcp.test/'])(
    'is accepted if its resource is %s',
    async (resource) => {
      const pages = { [`https://mcp.test${RESOURCE}/a/mcp`]: { ...metadata, resource }, ...as }
      const { sentTo } = await authorize({ pages })
      expect(sentTo.searchParams.get('resource')).toBe(resource)
    },
  )

  test('is checked by validateResourceURL() if the provider has that method', async () => {
    const resource = 'https://own.test/r'
    const { sentTo } = await authorize({
      pages: { [`https://mcp.test${RESOURCE}/a/mcp`]: { ...metadata, resource }, ...as },
      provider: (base) => ({ ...base, validateResourceURL: async () => new URL(resource) }),
    })
    expect(sentTo.searchParams.get('resource')).toBe(resource)
  })

  test('rejects with DISCOVERY_FAILED if the server answers with an error', async () => {
    const pages = { [`https://mcp.test${RESOURCE}/a/mcp`]: 503 }
    await expect(authorize({ pages })).rejects.toMatchObject({
      code: 'DISCOVERY_FAILED',
      cause: { message: 'HTTP 503' },
    })
  })

  test('counts as missing if the server answers with an HTML page or a redirect', async () => {
    const page = new Response('<html>welcome</html>', { headers: { 'content-type': 'text/html' } })
    const { sentTo } = await authorize({
      pages: {
        [`https://mcp.test${RESOURCE}/a/mcp`]: Response.redirect('https://mcp.test/login'),
        [`https://mcp.test${RESOURCE}`]: page,
        [`https://mcp.test${OAUTH}`]: page,
      },
    })
    expect(sentTo.origin + sentTo.pathname).toBe('https://mcp.test/authorize')
  })

  test.each([{}, { resource: 1 }, { resource: 'x', authorization_servers: 'y' }])(
    'counts as missing if the document is %j',
    async (document) => {
      const pages = { [`https://mcp.test${RESOURCE}/a/mcp`]: document }
      const { sentTo } = await authorize({ pages })
      expect(sentTo.searchParams.get('resource')).toBe('https://mcp.test/a/mcp')
    },
  )

  test('is never read from this machine for a remote server', async () => {
    const challenge = 'resource_metadata="http://127.0.0.1:9/meta"'
    await expect(authorize({ challenge })).rejects.toMatchObject({
      code: 'INSECURE_URL',
      asked: [],
    })
  })
})

describe('metadata of the authorization server', () => {
  const at = (issuer: string, pages: Record<string, unknown>): Site => ({
    pages: {
      [`https://mcp.test${RESOURCE}/a/mcp`]: {
        resource: 'https://mcp.test/a/mcp',
        authorization_servers: [issuer],
      },
      ...pages,
    },
  })

  test('is read at three URLs for an issuer with a path', async () => {
    const { asked, sentTo } = await authorize(
      at('https://as.test/t', {
        [`https://as.test/t${OPENID}`]: authorizationServer('https://as.test/t', {
          authorization_endpoint: 'https://as.test/auth',
        }),
      }),
    )
    expect(sentTo.origin + sentTo.pathname).toBe('https://as.test/auth')
    expect(
      asked.filter((url) => url.startsWith('https://as.test') && !/register/.test(url)),
    ).toEqual([
      `https://as.test${OAUTH}/t`,
      `https://as.test${OPENID}/t`,
      `https://as.test/t${OPENID}`,
    ])
  })

  test.each(['https://as.test/', 'https://evil.test', 'https://as.test/t'])(
    'is refused if it names the issuer %s instead of https://as.test',
    async (issuer) => {
      const site = at('https://as.test', {
        [`https://as.test${OAUTH}`]: authorizationServer(issuer),
      })
      await expect(authorize(site)).rejects.toMatchObject({ code: 'ISSUER_MISMATCH' })
    },
  )

  test('is required if the MCP server names the issuer', async () => {
    await expect(authorize(at('https://as.test', {}))).rejects.toMatchObject({
      code: 'DISCOVERY_FAILED',
    })
  })

  test.each([{ issuer: 7 }, { token_endpoint: {} }, { code_challenge_methods_supported: [1] }])(
    'is refused with the invalid field %j',
    async (broken) => {
      const document = authorizationServer('https://as.test', broken)
      const site = at('https://as.test', { [`https://as.test${OAUTH}`]: document })
      await expect(authorize(site)).rejects.toMatchObject({ code: 'INVALID_RESPONSE' })
    },
  )

  test.each(['authorization_endpoint', 'token_endpoint', 'registration_endpoint'])(
    'is refused with an insecure %s',
    async (name) => {
      const document = authorizationServer('https://as.test', { [name]: 'http://as.test/x' })
      const site = at('https://as.test', { [`https://as.test${OAUTH}`]: document })
      await expect(authorize(site)).rejects.toMatchObject({ code: 'INSECURE_URL' })
    },
  )

  test.each(['https://mcp.test', 'https://mcp.test/'])(
    'is read from the MCP server (%s) if that server names no issuer',
    async (issuer) => {
      const { sentTo } = await authorize({
        pages: {
          [`https://mcp.test${OAUTH}`]: authorizationServer(issuer, {
            authorization_endpoint: 'https://mcp.test/own',
          }),
        },
      })
      expect(sentTo.pathname).toBe('/own')
    },
  )

  test('is replaced by the default endpoints of 2025-03-26 if it is missing', async () => {
    const { asked, sentTo } = await authorize({})
    expect(sentTo.origin + sentTo.pathname).toBe('https://mcp.test/authorize')
    expect(asked).toContain('https://mcp.test/register')
    expect(new Set(asked).size).toBe(asked.length)
  })

  test('is not replaced by default endpoints if the server answers with an error', async () => {
    const pages = { [`https://mcp.test${OPENID}`]: 502 }
    await expect(authorize({ pages })).rejects.toMatchObject({ code: 'DISCOVERY_FAILED' })
  })
})

describe('scopes', () => {
  test.each([
    ['of the challenge', { challenge: 'c', server: ['s'], client: 'own' }, 'c'],
    ['of the server', { server: ['s', 't'], client: 'own' }, 's t'],
    ['of the client', { client: 'own' }, 'own'],
    ['none', {}, null],
    ['with offline_access', { challenge: 'c', issuer: ['offline_access'] }, 'c offline_access'],
    ['without offline_access', { issuer: ['offline_access'], grants: ['x'], client: 'own' }, 'own'],
  ] as const)('%s', async (_what, given, expected) => {
    const { challenge, server, client, issuer, grants } = { ...undefinedParts, ...given }
    const { sentTo } = await authorize({
      ...(challenge && { challenge: `scope="${challenge}"` }),
      pages: {
        [`https://mcp.test${RESOURCE}/a/mcp`]: {
          resource: 'https://mcp.test/a/mcp',
          ...(server && { scopes_supported: server }),
        },
        [`https://mcp.test${OAUTH}`]: authorizationServer('https://mcp.test', {
          ...(issuer && { scopes_supported: issuer }),
        }),
      },
      client: { scope: client, ...(grants && { clientMetadata: { grant_types: grants } }) },
    })
    expect(sentTo.searchParams.get('scope')).toBe(expected)
  })
})

const undefinedParts = {
  challenge: undefined,
  server: undefined,
  client: undefined,
  issuer: undefined,
  grants: undefined,
}

describe('registration', () => {
  const pages = (more: object = {}): Record<string, unknown> => ({
    [`https://mcp.test${OAUTH}`]: authorizationServer('https://mcp.test', more),
  })

  test('fills in the fields that the client metadata does not have', async () => {
    const { registered } = await authorize({
      challenge: 'scope="s"',
      pages: pages({ token_endpoint_auth_methods_supported: ['none'] }),
      client: { clientName: 'app' },
    })
    expect(registered).toEqual({
      redirect_uris: ['http://127.0.0.1:9/callback'],
      client_name: 'app',
      application_type: 'native',
      token_endpoint_auth_method: 'none',
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      scope: 's',
    })
  })

  test('keeps the fields of the client metadata', async () => {
    const clientMetadata = {
      client_name: 'app',
      application_type: 'web',
      grant_types: ['authorization_code'],
      token_endpoint_auth_method: 'client_secret_post',
      logo_uri: undefined,
    }
    const { registered } = await authorize({
      pages: pages({ token_endpoint_auth_methods_supported: ['none'] }),
      client: { clientMetadata },
    })
    expect(registered).toEqual({
      redirect_uris: ['http://127.0.0.1:9/callback'],
      client_name: 'app',
      application_type: 'web',
      token_endpoint_auth_method: 'client_secret_post',
      grant_types: ['authorization_code'],
      response_types: ['code'],
    })
  })

  test.each([
    ['http://127.0.0.1:7/cb', 'native'],
    ['http://localhost/cb', 'native'],
    ['com.app:/cb', 'native'],
    ['https://app.test/cb', 'web'],
  ])('registers a client with the redirect URL %s as %s', async (redirectUrl, expected) => {
    const { registered } = await authorize({ client: { redirectUrl } })
    expect(registered['application_type']).toBe(expected)
  })

  test('accepts status 200 and a secret without an expiry time', async () => {
    let saved: OAuthClientInformation | undefined
    await authorize({
      pages: {
        'https://mcp.test/register': {
          client_id: 'c',
          client_secret: 's',
          redirect_uris: ['http://127.0.0.1:9/callback'],
          x: 1,
        },
      },
      provider: (base) => ({
        ...base,
        saveClientInformation: (information) => void (saved = information),
      }),
    })
    expect(saved).toMatchObject({ client_id: 'c', client_secret: 's', issuer: 'https://mcp.test' })
  })

  test('registers the client again when its secret has expired', async () => {
    const expired = { client_id: 'old', client_secret: 's', client_secret_expires_at: 1 }
    const { sentTo } = await authorize({
      provider: (base) => ({
        ...base,
        clientInformation: () => expired,
        saveClientInformation: () => {},
      }),
    })
    expect(sentTo.searchParams.get('client_id')).toBe('c')
  })

  test.each([
    [
      'an error',
      Response.json({ error: 'invalid_redirect_uri' }, { status: 400 }),
      'NOT_REGISTERED',
    ],
    ['a page', new Response('<html>', { status: 403 }), 'NOT_REGISTERED'],
    ['no id', Response.json({ client_id: 7 }, { status: 201 }), 'INVALID_RESPONSE'],
  ])('fails if the server answers with %s', async (what, answer, code) => {
    const failed = authorize({ pages: { 'https://mcp.test/register': answer } })
    const oauthError = what === 'an error' ? 'invalid_redirect_uri' : undefined
    await expect(failed).rejects.toMatchObject({ code, oauthError })
  })

  test('fails with an error that says what to do if the server has no registration endpoint', async () => {
    const site = { pages: pages({ registration_endpoint: undefined }) }
    await expect(authorize(site)).rejects.toThrow('pass its client id')
  })
})

const local = new URL('http://127.0.0.1:3000/mcp')
const remote = new URL('https://mcp.test/mcp')

test.each([
  ['https://as.test/token', remote],
  ['https://as.test/token', local],
  ['http://localhost:9/token', local],
  ['http://[::1]:9/token', local],
  ['http://127.0.0.9/token', local],
])('accepts the URL %s for the MCP server %s', (url, server) => {
  expect(secureUrl(url, server).href).toBe(url)
})

test.each([
  ['http://as.test/token', remote],
  ['http://as.test/token', local],
  ['http://localhost:9/token', remote],
  ['http://127.0.0.1.evil.test/', local],
  ['javascript:alert(1)', local],
])('refuses the URL %s for the MCP server %s', (url, server) => {
  expect(() => secureUrl(url, server)).toThrow(
    expect.objectContaining({ name: 'AuthError', code: 'INSECURE_URL' }),
  )
})
