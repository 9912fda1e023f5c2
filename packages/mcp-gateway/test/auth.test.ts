import { inspect } from 'node:util'

import { UnauthorizedError } from '@modelcontextprotocol/sdk/client/auth.js'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type {
  OAuthClientInformationMixed,
  OAuthTokens,
} from '@modelcontextprotocol/sdk/shared/auth.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import { freePort } from '@x/mcp-testing'
import { expect, test } from 'vitest'

import type { Authenticator } from '../src/http/auth/authenticator.ts'
import { bearerAuth } from '../src/http/auth/bearer-auth.ts'
import { facadeAuth } from '../src/http/auth/facade/facade-auth.ts'
import type { IdentityService } from '../src/http/auth/facade/identity-service.ts'
import { jwtAuth } from '../src/http/auth/jwt-auth.ts'
import { createGateway } from '../src/gateway.ts'
import { MemoryGatewayStore } from '../src/store/memory-store.ts'
import { AgentsAtHand, echo } from './agents-at-hand.ts'
import { CLIENT_KINDS, connect } from './mcp-clients.ts'

const initialize = {
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: {
    protocolVersion: '2025-11-25',
    capabilities: {},
    clientInfo: { name: 'test', version: '1.0.0' },
  },
}

const post = (url: string): Promise<Response> =>
  fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
    body: JSON.stringify(initialize),
  })

test('a client without a token is led to the issuer, over real HTTP', async () => {
  const issuers = [{ issuer: 'https://login.example', audience: 'https://gateway.example/mcp' }]
  await using gateway = createGateway({ auth: jwtAuth({ issuers }) })
  const { url } = await gateway.listen({ port: 0 })
  const refused = await post(url)
  expect(refused.status).toBe(401)
  const challenge = refused.headers.get('www-authenticate') ?? ''
  const document = await fetch(/resource_metadata="([^"]+)"/.exec(challenge)?.[1] ?? '')
  await expect(document.json()).resolves.toMatchObject({
    resource: url,
    authorization_servers: ['https://login.example'],
  })
})

test('a client of the SDK signs in at one gateway, and calls at another', async () => {
  await using store = new MemoryGatewayStore()
  const port = await freePort()
  const resource = `http://127.0.0.1:${port}/mcp`
  const identity: IdentityService = {
    loginUrl: ({ callback, state }) => `${callback}?code=upstream&state=${state}`,
    exchange: async () => ({ claims: { sub: 'ann' } }),
    refresh: () => Promise.reject(new Error('not asked for')),
  }
  const gatewayAt = () => {
    const agents = new AgentsAtHand({ echo })
    const auth = facadeAuth({ store, resource, identity })
    return { agents, gateway: createGateway({ sources: [agents], auth, store }) }
  }
  const one = gatewayAt()
  await using first = one.gateway
  await first.listen({ port })
  const other = gatewayAt()
  await using second = other.gateway
  const { url } = await second.listen({ port: 0 })

  const memory: {
    client?: OAuthClientInformationMixed
    tokens?: OAuthTokens
    verifier?: string
    sentTo?: URL
  } = {}
  const redirectUrl = 'http://127.0.0.1:4444/callback'
  const authProvider = {
    redirectUrl,
    clientMetadata: { redirect_uris: [redirectUrl] },
    clientInformation: () => memory.client,
    saveClientInformation: (client: OAuthClientInformationMixed) => void (memory.client = client),
    tokens: () => memory.tokens,
    saveTokens: (tokens: OAuthTokens) => void (memory.tokens = tokens),
    redirectToAuthorization: (to: URL) => void (memory.sentTo = to),
    saveCodeVerifier: (verifier: string) => void (memory.verifier = verifier),
    codeVerifier: () => memory.verifier ?? '',
  }
  const transport = new StreamableHTTPClientTransport(new URL(resource), { authProvider })
  const client = new Client({ name: 'test', version: '1.0.0' })
  await expect(client.connect(transport as Transport)).rejects.toThrow(UnauthorizedError)
  const login = await fetch(memory.sentTo ?? '', { redirect: 'manual' })
  const back = await fetch(login.headers.get('location') ?? '', { redirect: 'manual' })
  const code = new URL(back.headers.get('location') ?? '').searchParams.get('code') ?? ''
  await transport.finishAuth(code)

  const authorization = `Bearer ${memory.tokens?.access_token}`
  const signedIn = new StreamableHTTPClientTransport(new URL(url), {
    requestInit: { headers: { authorization } },
  })
  const caller = new Client({ name: 'test', version: '1.0.0' })
  await caller.connect(signedIn)
  const result = await caller.callTool({ name: 'echo', arguments: { message: 'Hello' } })
  expect(result.content).toEqual([{ type: 'text', text: 'Hello' }])
  expect(other.agents.calls[0]?.principal.id).toBe(`http://127.0.0.1:${port}|ann`)
  await caller.close()
  await client.close()
})

test.each(CLIENT_KINDS)(
  'an agent learns who calls, and nothing that it could call others with (%s)',
  async (kind) => {
    const agents = new AgentsAtHand({ echo })
    const token = 'the-token-of-ada-0123456789'
    const auth = bearerAuth({ ada: { token, scopes: ['*'] } })
    await using gateway = createGateway({ sources: [agents], auth })
    const { url } = await gateway.listen({ port: 0 })
    await using client = await connect(kind, url, { headers: { authorization: `Bearer ${token}` } })
    await client.callTool('echo', 'Hello')
    const [call] = agents.calls
    expect(call?.principal.id).toBe('ada')
    expect(inspect(call, { depth: null, showHidden: true })).not.toContain(token)
  },
)

test('an address that sends too much is told so, before anybody looks at its token', async () => {
  let asked = 0
  const auth: Authenticator = {
    authenticate: async () => {
      asked++
      return new Response(null, { status: 401 })
    },
  }
  await using gateway = createGateway({ auth, limits: { requestsPerMinutePerIp: 1 } })
  const { url } = await gateway.listen({ port: 0 })
  expect((await post(url)).status).toBe(401)
  const second = await post(url)
  expect(asked).toBe(1)
  expect(second.status).toBe(429)
  expect(Number(second.headers.get('retry-after'))).toBeGreaterThan(0)
})
