import { describe, expect, test } from 'vitest'
import { handlerDispatcher } from '@x/internal/testing/undici'
import { createOAuthFetch } from '../oauth-fetch.ts'
import { discoverResource, resourceOf, speaksFor } from './resource-discovery.ts'

const serverUrl = new URL('https://mcp.test/a/mcp')

function site(pages: Record<string, unknown>): {
  fetch: ReturnType<typeof createOAuthFetch>
  asked: string[]
} {
  const asked: string[] = []
  const dispatcher = handlerDispatcher((request) => {
    const url = new URL(request.url)
    asked.push(url.pathname)
    const page = pages[url.pathname]
    if (typeof page === 'number') return new Response('trouble', { status: page })
    return page === undefined ? new Response('no', { status: 404 }) : Response.json(page)
  })
  return { fetch: createOAuthFetch({ dispatcher, signal: new AbortController().signal }), asked }
}

const discover = (
  pages: Record<string, unknown>,
  fromChallenge?: string,
): ReturnType<typeof discoverResource> =>
  discoverResource({ serverUrl, fromChallenge, provider: {}, fetch: site(pages).fetch })

test('the challenge wins over the well-known places', async () => {
  const { fetch, asked } = site({
    '/meta': { resource: 'https://mcp.test/a/mcp', scopes_supported: ['s'] },
    '/.well-known/oauth-protected-resource': { resource: 'https://mcp.test' },
  })
  const found = await discoverResource({
    serverUrl,
    fromChallenge: 'https://mcp.test/meta',
    provider: {},
    fetch,
  })
  expect(found.metadata?.scopes_supported).toEqual(['s'])
  expect(found.resource).toBe('https://mcp.test/a/mcp')
  expect(asked).toEqual(['/meta'])
})

test('the root is asked last', async () => {
  const found = await discover({
    '/.well-known/oauth-protected-resource': { resource: 'https://mcp.test/' },
  })
  expect(found.resource).toBe('https://mcp.test/')
})

test('a server that says nothing is its own resource', async () => {
  await expect(discover({})).resolves.toEqual({ resource: 'https://mcp.test/a/mcp' })
})

test('metadata of another server is refused', async () => {
  const page = {
    '/.well-known/oauth-protected-resource/a/mcp': { resource: 'https://evil.test/a/mcp' },
  }
  await expect(discover(page)).rejects.toMatchObject({ code: 'RESOURCE_MISMATCH' })
})

test('a server in trouble does not count as one that says nothing', async () => {
  const page = { '/.well-known/oauth-protected-resource/a/mcp': 503 }
  await expect(discover(page)).rejects.toMatchObject({
    code: 'DISCOVERY_FAILED',
    cause: { message: 'HTTP 503' },
  })
})

test('a page, or a redirect to one, is no metadata', async () => {
  const dispatcher = handlerDispatcher((request) =>
    request.url.endsWith('/mcp')
      ? new Response(null, { status: 302, headers: { location: '/login' } })
      : new Response('<html>welcome</html>', { headers: { 'content-type': 'text/html' } }),
  )
  const fetch = createOAuthFetch({ dispatcher, signal: new AbortController().signal })
  const found = await discoverResource({ serverUrl, fromChallenge: undefined, provider: {}, fetch })
  expect(found.metadata).toBeUndefined()
})

test('a challenge cannot make us ask this machine', async () => {
  await expect(discover({}, 'http://127.0.0.1:9/meta')).rejects.toMatchObject({
    code: 'INSECURE_URL',
  })
})

test('the provider may have rules of its own', async () => {
  const found = await discoverResource({
    serverUrl,
    fromChallenge: undefined,
    provider: { validateResourceURL: async () => new URL('https://own.test/r') },
    fetch: site({}).fetch,
  })
  expect(found.resource).toBe('https://own.test/r')
})

describe('speaksFor', () => {
  test.each([
    ['https://mcp.test/a/mcp', true],
    ['https://mcp.test/a/mcp/', true],
    ['https://mcp.test/a', true],
    ['https://mcp.test', true],
    ['https://mcp.test/a/m', false],
    ['https://mcp.test/a/mcp/more', false],
    ['https://other.test/a/mcp', false],
    ['http://mcp.test/a/mcp', false],
    ['nonsense', false],
  ])('%s: %s', (resource, expected) => {
    expect(speaksFor(resource, serverUrl)).toBe(expected)
  })
})

test.each([
  ['https://mcp.test/', 'https://mcp.test'],
  ['https://mcp.test/mcp#part', 'https://mcp.test/mcp'],
])('the resource of %s is %s', (url, expected) => {
  expect(resourceOf(new URL(url))).toBe(expected)
})
