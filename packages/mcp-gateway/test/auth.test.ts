import { inspect } from 'node:util'

import { expect, test } from 'vitest'

import { bearerAuth } from '../src/http/auth/bearer.ts'
import { jwtAuth } from '../src/http/auth/jwt.ts'
import { createGateway } from '../src/gateway.ts'
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
