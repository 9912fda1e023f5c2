import { inspect } from 'node:util'
import { Agent } from 'undici'
import { describe, expect, test } from 'vitest'
import {
  authErrorOf,
  ISSUER,
  oauthUser,
  REDIRECT_URL,
  renewToken,
  RESOURCE,
} from '../../test/oauth-user.ts'
import { createOAuthFetch } from '../http/http-client.ts'
import { Authorizer } from './authorizer.ts'
import type { FetchFunction } from './authorizer.ts'
import { clientCredentials } from './providers.ts'
import { secureUrl } from './secure-url.ts'

const { sentTo, user } = oauthUser()

const local = new URL('http://127.0.0.1:3000/mcp')
const remote = new URL('https://mcp.test/mcp')
const office = new URL('https://10.0.0.5/mcp')

const refused = expect.objectContaining({ name: 'AuthError', code: 'INSECURE_URL' })

test.each([
  ['https://as.test/token', remote],
  ['https://1.2.3.4/token', remote],
  ['https://100.63.0.1/token', remote],
  ['https://172.32.0.1/token', remote],
  ['https://[2606:4700::1111]/token', remote],
  ['https://localhost.test/token', remote],
  ['https://as.test/token', local],
  ['http://localhost:9/token', local],
  ['http://[::1]:9/token', local],
  ['http://127.0.0.9/token', local],
  ['http://as.localhost/token', local],
  ['https://10.1.2.3/token', local],
  ['https://10.1.2.3/token', office],
  ['https://keycloak/token', office],
  ['https://as.test/token', office],
])('accepts the URL %s for the MCP server %s', (url, server) => {
  expect(secureUrl(url, server).href).toBe(url)
})

test.each([
  ['http://as.test/token', remote],
  ['http://as.test/token', local],
  ['http://10.1.2.3/token', office],
  ['http://localhost:9/token', remote],
  ['http://127.0.0.1.evil.test/', local],
  ['javascript:alert(1)', local],
])('refuses the URL %s, which is not https, for the MCP server %s', (url, server) => {
  expect(() => secureUrl(url, server)).toThrow(refused)
})

test.each([
  'https://localhost/token',
  'https://localhost./token',
  'https://as.localhost/token',
  'https://127.0.0.1/token',
  'https://2130706433/token',
  'https://0x7f.1/token',
  'https://0.0.0.0/token',
  'https://10.0.0.9/token',
  'https://100.64.0.1/token',
  'https://169.254.169.254/latest/meta-data',
  'https://168.63.129.16/token',
  'https://172.16.0.1/token',
  'https://172.31.255.255/token',
  'https://192.168.1.1/token',
  'https://198.18.0.1/token',
  'https://224.0.0.1/token',
  'https://255.255.255.255/token',
  'https://[::]/token',
  'https://[::1]/token',
  'https://[::ffff:10.0.0.1]/token',
  'https://[::ffff:127.0.0.1]/token',
  'https://[64:ff9b::a00:1]/token',
  'https://[2002:a00:1::]/token',
  'https://[2001:db8::1]/token',
  'https://[fc00::1]/token',
  'https://[fd12:3456::1]/token',
  'https://[fe80::1]/token',
  'https://[ff02::1]/token',
  'https://keycloak/token',
  'https://printer.local/token',
  'https://metadata.google.internal/token',
  'https://router.home.arpa/token',
])('refuses the private address of %s for a public MCP server', (url) => {
  expect(() => secureUrl(url, remote)).toThrow(refused)
})

test.each([
  'https://127.0.0.1/token',
  'https://[::ffff:127.0.0.1]/token',
  'https://0.0.0.0/token',
  'https://localhost/token',
])('refuses %s for an MCP server on another machine of the network', (url) => {
  expect(() => secureUrl(url, office)).toThrow(refused)
})

test('accepts private addresses of the host of the server, and of the host that the user named', () => {
  const intranet = new URL('https://mcp.internal/mcp')
  expect(secureUrl('https://mcp.internal:8443/token', intranet).port).toBe('8443')
  expect(secureUrl('https://10.0.0.9/token', remote, 'https://10.0.0.9/').hostname).toBe('10.0.0.9')
  expect(() => secureUrl('https://10.0.0.8/token', remote, 'https://10.0.0.9/')).toThrow(refused)
  expect(() => secureUrl('http://10.0.0.9/token', remote, 'https://10.0.0.9/')).toThrow(refused)
})

test('names both servers in the error', () => {
  const message = expect.stringMatching(/https:\/\/10\.0\.0\.9 .*https:\/\/mcp\.test/)
  expect(() => secureUrl('https://10.0.0.9/token?code=c', remote)).toThrow(
    expect.objectContaining({ message }),
  )
  expect(() => secureUrl('https://10.0.0.9/token?code=c', remote)).not.toThrow(/code=c/)
})

describe('private addresses', () => {
  const MCP = 'https://mcp.example/mcp'
  const PRIVATE = 'https://10.0.0.9'

  /** A web of JSON documents. Requests for other URLs are answered with 404. */
  function web(pages: Record<string, unknown>): { fetch: FetchFunction; seen: string[] } {
    const seen: string[] = []
    return {
      seen,
      async fetch(url) {
        const { href } = new URL(url)
        seen.push(href)
        const document = pages[href]
        return document === undefined
          ? new Response(null, { status: 404 })
          : Response.json(document)
      },
    }
  }

  /** Documents of an authorization server at `origin` whose endpoints are replaced by `other`. */
  function documents(origin: string, other: Record<string, unknown> = {}): Record<string, unknown> {
    const token = { access_token: 'access-1', token_type: 'Bearer' }
    return {
      [`https://mcp.example${RESOURCE}`]: { resource: MCP, authorization_servers: [origin] },
      [`${origin}${ISSUER}`]: {
        issuer: origin,
        authorization_endpoint: `${origin}/authorize`,
        token_endpoint: `${origin}/token`,
        registration_endpoint: `${origin}/register`,
        response_types_supported: ['code'],
        ...other,
      },
      [`${origin}/register`]: { client_id: 'c', redirect_uris: [REDIRECT_URL] },
      [`${origin}/token`]: token,
      [`${PRIVATE}/token`]: token,
    }
  }

  const redirect = (url: URL): string => {
    sentTo.push(url)
    return `http://127.0.0.1:9/callback?code=c&state=${url.searchParams.get('state')}`
  }

  test.each([
    ['an authorization server', documents(PRIVATE), ''],
    ...['authorization_endpoint', 'token_endpoint', 'registration_endpoint'].map((field) => [
      `the ${field}`,
      documents('https://as.example', { [field]: `${PRIVATE}/token` }),
      '',
    ]),
    ['resource metadata', documents('https://as.example'), `resource_metadata="${PRIVATE}/meta"`],
  ] as [string, Record<string, unknown>, string][])(
    'are refused for %s of a public server',
    async (_what, pages, challenge) => {
      const { fetch: send, seen } = web(pages)
      const server = { url: MCP, fetch: send }
      const error = await authErrorOf(renewToken(user({ redirect }), server, `Bearer ${challenge}`))
      expect(error).toMatchObject({ code: 'INSECURE_URL' })
      expect(error.message).toContain(PRIVATE)
      expect([...seen, ...sentTo.map(String)].filter((url) => url.startsWith(PRIVATE))).toEqual([])
    },
  )

  test.each([
    ['the issuer of the provider', () => user({ redirect, issuer: PRIVATE })],
    [
      'the state of the provider',
      () => ({
        ...user({ redirect }),
        discoveryState: () => ({ authorizationServerUrl: PRIVATE }),
      }),
    ],
    [
      'the issuer of a program',
      () => clientCredentials({ clientId: 'c', clientSecret: 's', issuer: PRIVATE }),
    ],
  ])('are accepted if the user names the server: %s', async (_what, make) => {
    const { fetch: send } = web(documents(PRIVATE))
    expect(await renewToken(make(), { url: MCP, fetch: send })).toBe('access-1')
  })

  test('of names can be refused by the lookup of a dispatcher, for every request', async () => {
    const names: string[] = []
    const agent = new Agent({
      connect: {
        lookup(name, _options, done) {
          names.push(name)
          done(new Error('a private address'), '')
        },
      },
    })
    const server = { url: MCP, fetch: createOAuthFetch(agent) }
    const error = await authErrorOf(renewToken(user({ redirect }), server))
    await agent.destroy()
    expect(error).toMatchObject({ code: 'DISCOVERY_FAILED' })
    expect(inspect(error, { depth: 9 })).toContain('a private address')
    expect(new Set(names)).toEqual(new Set(['mcp.example']))
  })

  test.each([
    ['the issuer', { issuer: PRIVATE }],
    ['the state', { discoveryState: () => ({ authorizationServerUrl: PRIVATE }) }],
  ])('are accepted for a later callback if the user names the server: %s', async (_what, own) => {
    const server = { url: MCP, fetch: web(documents(PRIVATE)).fetch }
    const provider = { ...user({ redirect: (url) => void sentTo.push(url) }), ...own }
    await authErrorOf(renewToken(provider, server))
    const callback = redirect(sentTo[0] ?? new URL('none:'))
    await new Authorizer(provider, new URL(MCP), server.fetch).finish(callback)
    expect((await provider.tokens())?.access_token).toBe('access-1')
  })

  test('are accepted for a public authorization server of a server in the network', async () => {
    const pages = documents('https://as.example')
    const url = 'https://10.0.0.5/mcp'
    pages[`https://10.0.0.5${RESOURCE}`] = {
      resource: url,
      authorization_servers: ['https://as.example'],
    }
    const { fetch: send } = web(pages)
    expect(await renewToken(user({ redirect }), { url, fetch: send })).toBe('access-1')
  })
})
