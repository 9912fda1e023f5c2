import { createGateway } from '@x/mcp-gateway'
import type { Authenticator } from '@x/mcp-gateway'
import { expect, test } from 'vitest'
import {
  ask,
  authorizeQuery,
  exchangeOf,
  locationOf,
  post,
  press,
  refreshOf,
  register,
  start,
} from '../test/oauth-world.ts'

const ORIGIN = 'https://gateway.example'
const resource = `${ORIGIN}/team/agents/mcp`
const issuer = `${ORIGIN}/team/agents`

const jsonAt = async (auth: Authenticator, path: string): Promise<unknown> =>
  (await ask(auth, path)).json()

test('keeps the path of the resource in the issuer, the endpoints, the callback and the metadata', async () => {
  await using world = await start({ resource })
  const metadata = {
    issuer,
    authorization_endpoint: `${issuer}/oauth/authorize`,
    token_endpoint: `${issuer}/oauth/token`,
    registration_endpoint: `${issuer}/oauth/register`,
  }
  // RFC 8414 section 3.1: the well-known part comes before the path of the issuer.
  const path = '/.well-known/oauth-authorization-server/team/agents'
  expect(await jsonAt(world.one, path)).toMatchObject(metadata)
  const ofResource = '/.well-known/oauth-protected-resource/team/agents/mcp'
  expect(await jsonAt(world.one, ofResource)).toMatchObject({
    resource,
    authorization_servers: [issuer],
  })
  const refused = await world.one.authenticate({
    method: 'POST',
    url: resource,
    headers: new Headers(),
  })
  if (!(refused instanceof Response)) throw new Error('it accepted a request without a token')
  expect(refused.headers.get('www-authenticate')).toContain(
    `resource_metadata="${ORIGIN}${ofResource}"`,
  )
})

test.each(['/team/agents', '/agents', ''])(
  'signs in through a proxy that forwards the prefix as "%s"',
  async (prefix) => {
    await using world = await start({ resource })
    const one: Authenticator = {
      ...world.one,
      handle: async (request, from) => {
        const url = new URL(request.url)
        url.pathname = prefix + url.pathname
        const { headers, method } = request
        const body = request.method === 'POST' ? await request.text() : null
        return world.one.handle?.(new Request(url, { method, headers, body }), from)
      },
    }
    const clientId = await register(one)
    const path = authorizeQuery(clientId)
    const page = await ask(one, path)
    const login = await refreshOf(await press(one, { path, page, decision: 'allow' }))
    expect(login.searchParams.get('gateway_uri')).toBe(`${issuer}/oauth/callback`)
    const state = login.searchParams.get('state')
    const back = locationOf(await ask(one, `/oauth/callback?state=${state}&code=upstream-code`))
    expect(back.searchParams.get('iss')).toBe(issuer)
    const code = back.searchParams.get('code') ?? ''
    expect((await post(one, exchangeOf(clientId, code))).status).toBe(200)
  },
)

test('issues at the origin for an endpoint with one segment', async () => {
  for (const [given, expected] of [
    ['https://gateway.example/mcp', ORIGIN],
    ['https://gateway.example/', ORIGIN],
    ['https://gateway.example/team/mcp/', `${ORIGIN}/team`],
    ['HTTPS://Gateway.example:443/Team/mcp', `${ORIGIN}/Team`],
  ] as const) {
    await using world = await start({ resource: given })
    expect(await jsonAt(world.one, '/.well-known/oauth-authorization-server')).toMatchObject({
      issuer: expected,
    })
  }
})

test('is reached through a gateway behind a prefix', async () => {
  await using world = await start({ resource })
  await using gateway = createGateway({
    auth: world.one,
    http: { publicUrl: `${ORIGIN}/team/agents` },
  })
  for (const path of [
    '/.well-known/oauth-authorization-server/team/agents',
    '/.well-known/oauth-authorization-server',
    '/team/agents/.well-known/oauth-authorization-server',
    '/.well-known/oauth-protected-resource/team/agents/mcp',
  ]) {
    const response = await gateway.fetch(new Request(ORIGIN + path))
    expect([path, response.status]).toEqual([path, 200])
    await response.text()
  }
  const posted = { method: 'POST', body: '{}' }
  const at = await gateway.fetch(new Request(`${ORIGIN}/team/agents/oauth/register`, posted))
  expect([at.status, await at.json()]).toEqual([400, { error: 'invalid_client_metadata' }])
})
