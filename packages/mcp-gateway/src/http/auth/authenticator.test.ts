import { expect, test } from 'vitest'
import { jwtAuth } from './jwt.ts'

const issuers = [
  { issuer: 'https://login.example/realm', audience: 'https://gateway.example/a/mcp' },
]

test('links a challenge to the metadata, which names the issuer (RFC 9728)', async () => {
  const auth = jwtAuth({
    issuers,
    resource: 'https://gateway.example/a/mcp',
    scopesSupported: ['agent:shop:call'],
  })
  const refused = await auth.authenticate({
    method: 'POST',
    url: 'http://internal:8000/a/mcp',
    headers: new Headers(),
  })
  expect(refused).toBeInstanceOf(Response)
  const challenge = (refused as Response).headers.get('www-authenticate') ?? ''
  expect(challenge).toBe(
    'Bearer resource_metadata="https://gateway.example/.well-known/oauth-protected-resource/a/mcp"',
  )
  const url = /resource_metadata="([^"]+)"/.exec(challenge)?.[1] ?? ''
  expect(auth.paths).toContain(new URL(url).pathname)
  const response = await auth.handle?.(new Request(url))
  expect(response?.headers.get('access-control-allow-origin')).toBe('*')
  await expect(response?.json()).resolves.toEqual({
    resource: 'https://gateway.example/a/mcp',
    authorization_servers: ['https://login.example/realm'],
    bearer_methods_supported: ['header'],
    scopes_supported: ['agent:shop:call'],
  })
})

test('links the refusal of a scope to the same metadata', () => {
  const auth = jwtAuth({ issuers, resource: 'https://gateway.example/mcp' })
  const request = { method: 'POST', url: 'https://gateway.example/mcp', headers: new Headers() }
  const response = auth.refuseScopes?.(request, ['agent:shop:call'])
  expect(response?.status).toBe(403)
  expect(response?.headers.get('www-authenticate')).toBe(
    'Bearer error="insufficient_scope", scope="agent:shop:call", resource_metadata="https://gateway.example/.well-known/oauth-protected-resource/mcp"',
  )
})

test('describes the requested URL if no resource is configured', async () => {
  const auth = jwtAuth({ issuers })
  const at = (path: string, init?: RequestInit): Promise<Response | undefined> =>
    auth.handle?.(new Request(`https://g.example${path}`, init)) ?? Promise.resolve(undefined)
  const well = '/.well-known/oauth-protected-resource'
  await expect((await at(`${well}/x/mcp`))?.json()).resolves.toMatchObject({
    resource: 'https://g.example/x/mcp',
  })
  expect(await at('/mcp')).toBeUndefined()
  expect(await at(`${well}s`)).toBeUndefined()
  expect((await at(well, { method: 'POST' }))?.status).toBe(405)
  expect((await at(well, { method: 'OPTIONS' }))?.status).toBe(204)
})
