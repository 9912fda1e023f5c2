import { UnauthorizedError } from '@modelcontextprotocol/sdk/client/auth.js'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type {
  OAuthClientInformationMixed,
  OAuthTokens,
} from '@modelcontextprotocol/sdk/shared/auth.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import { createGateway, MemoryGatewayStore } from '@x/mcp-gateway'
import type { AgentCall, AgentSource, Authenticator } from '@x/mcp-gateway'
import { FormBrowser, freePort } from '@x/mcp-testing'
import { expect, test } from 'vitest'
import { oauthFacade } from '../src/index.ts'
import type { IdentityService } from '../src/index.ts'
import {
  ask,
  authorizeQuery,
  comeBack,
  locationOf,
  ORIGIN,
  press,
  refreshOf,
  register,
  start,
} from './oauth-world.ts'

/** An agent that answers with the message that it gets. */
function echo(calls: AgentCall[]): AgentSource {
  const agent = { id: 'echo', name: 'echo', description: 'Repeats', health: 'healthy' } as const
  return {
    name: 'echo',
    isLocal: true,
    start: async (listener) => listener.found({ ...agent, skills: [] }),
    async *run(call) {
      calls.push(call)
      yield { type: 'text', text: call.input.kind === 'message' ? call.input.text : '' }
      yield { type: 'done' }
    },
    close: async () => undefined,
  }
}

test('lets a client of the SDK sign in at one gateway and call at another', async () => {
  await using store = new MemoryGatewayStore()
  const port = await freePort()
  const resource = `http://127.0.0.1:${port}/mcp`
  const identity: IdentityService = {
    loginUrl: ({ callback, state }) => `${callback}?code=upstream&state=${state}`,
    exchange: async () => ({ claims: { sub: 'ann' } }),
    refresh: () => Promise.reject(new Error('no refresh is expected')),
  }
  const gatewayAt = () => {
    const calls: AgentCall[] = []
    const auth = oauthFacade({ store, resource, identity })
    return { calls, gateway: createGateway({ sources: [echo(calls)], auth, store }) }
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
  const back = await new FormBrowser().signIn(memory.sentTo ?? '', redirectUrl)
  await transport.finishAuth(back.searchParams.get('code') ?? '')

  const authorization = `Bearer ${memory.tokens?.access_token}`
  const signedIn = new StreamableHTTPClientTransport(new URL(url), {
    requestInit: { headers: { authorization } },
  })
  const caller = new Client({ name: 'test', version: '1.0.0' })
  await caller.connect(signedIn)
  const result = await caller.callTool({ name: 'echo', arguments: { message: 'Hello' } })
  expect(result.content).toEqual([{ type: 'text', text: 'Hello' }])
  expect(other.calls[0]?.principal.id).toBe(`http://127.0.0.1:${port}|ann`)
  await caller.close()
  await client.close()
})

test('accepts the form of its own page, whose origin browsers do not send', async () => {
  await using world = await start()
  const path = authorizeQuery(await register(world.one))
  await using gateway = createGateway({
    sources: [echo([])],
    auth: world.one,
    http: { publicUrl: ORIGIN },
  })
  const through: Authenticator = {
    ...world.one,
    handle: (request) => {
      request.headers.set('host', 'gateway.example')
      return gateway.fetch(request)
    },
  }
  const page = await ask(through, path)
  const login = await refreshOf(await press(through, { path, page, decision: 'allow' }))
  const state = login.searchParams.get('state') ?? ''
  expect(locationOf(await comeBack(through, state)).searchParams.has('code')).toBe(true)
})

test('reports refused sign-ins to the observer, and no others', async () => {
  await using world = await start()
  const clientId = await register(world.one)
  const reported: string[] = []
  await using gateway = createGateway({
    sources: [echo([])],
    auth: world.one,
    http: { publicUrl: ORIGIN },
    observer: {
      requestRefused: ({ reason, status }) => void reported.push(`${reason} ${status}`),
    },
  })
  const paths = [
    '/.well-known/oauth-authorization-server',
    authorizeQuery(clientId),
    authorizeQuery('nobody'),
    authorizeQuery(clientId, { code_challenge_method: 'plain' }),
    '/oauth/callback?state=made-up&code=x',
    '/oauth/token',
  ]
  const answer = { method: 'POST', body: new URLSearchParams({ decision: 'allow' }) }
  for (const init of [...paths.map((path) => ({ path })), { path: paths[1], ...answer }]) {
    const headers = { host: 'gateway.example' }
    const request = new Request(`${ORIGIN}${init.path}`, { ...init, headers })
    await (await gateway.fetch(request)).text()
  }
  expect(reported).toEqual(['sign_in 401', 'sign_in 302', 'sign_in 400', 'sign_in 400'])
})
