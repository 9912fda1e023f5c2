import { expect, test } from 'vitest'
import { handlerDispatcher } from '@x/internal/testing/undici'
import { discoverAuthorizationServer } from './authorization-server.ts'
import type { AuthorizationServer } from './authorization-server.ts'
import { createOAuthFetch } from '../oauth-fetch.ts'

const serverUrl = new URL('https://mcp.test/mcp')

function discover(
  issuer: string | undefined,
  pages: Record<string, unknown>,
): Promise<AuthorizationServer> {
  const dispatcher = handlerDispatcher((request) => {
    const page = pages[request.url]
    if (typeof page === 'number') return new Response('trouble', { status: page })
    return page === undefined ? new Response('no', { status: 404 }) : Response.json(page)
  })
  const fetch = createOAuthFetch({ dispatcher, signal: new AbortController().signal })
  return discoverAuthorizationServer({ issuer, serverUrl, fetch })
}

test('the last place is asked too, and its endpoints are used', async () => {
  const found = await discover('https://as.test/t', {
    'https://as.test/t/.well-known/openid-configuration': {
      issuer: 'https://as.test/t',
      authorization_endpoint: 'https://as.test/auth',
      token_endpoint: 'https://as.test/token',
    },
  })
  expect(found).toMatchObject({ issuer: 'https://as.test/t' })
  expect(found.tokenEndpoint.href).toBe('https://as.test/token')
  expect(found.registrationEndpoint).toBeUndefined()
})

test.each(['https://as.test/', 'https://evil.test', 'https://as.test/t'])(
  'metadata of the issuer %s is not used for https://as.test',
  async (issuer) => {
    const page = { issuer, token_endpoint: 'https://as.test/token' }
    await expect(
      discover('https://as.test', {
        'https://as.test/.well-known/oauth-authorization-server': page,
      }),
    ).rejects.toMatchObject({ code: 'ISSUER_MISMATCH' })
  },
)

test('a named issuer without metadata is an error, never default endpoints', async () => {
  await expect(discover('https://as.test', {})).rejects.toMatchObject({ code: 'DISCOVERY_FAILED' })
})

test('an MCP server that names nobody is its own authorization server', async () => {
  const found = await discover(undefined, {
    'https://mcp.test/.well-known/oauth-authorization-server': {
      issuer: 'https://mcp.test/',
      token_endpoint: 'https://mcp.test/own',
    },
  })
  expect(found.tokenEndpoint.href).toBe('https://mcp.test/own')
})

test('… with default endpoints where it has no metadata (2025-03-26)', async () => {
  const found = await discover(undefined, {})
  expect(found.metadata).toBeUndefined()
  expect(found.authorizationEndpoint?.href).toBe('https://mcp.test/authorize')
  expect(found.tokenEndpoint.href).toBe('https://mcp.test/token')
  expect(found.registrationEndpoint?.href).toBe('https://mcp.test/register')
})

test('… but not where it could not say', async () => {
  await expect(
    discover(undefined, { 'https://mcp.test/.well-known/openid-configuration': 502 }),
  ).rejects.toMatchObject({ code: 'DISCOVERY_FAILED' })
})

test('an endpoint that is not secure is refused', async () => {
  await expect(
    discover('https://as.test', {
      'https://as.test/.well-known/oauth-authorization-server': {
        issuer: 'https://as.test',
        token_endpoint: 'http://as.test/token',
      },
    }),
  ).rejects.toMatchObject({ code: 'INSECURE_URL' })
})
