import { auth as signIn } from '@modelcontextprotocol/sdk/client/auth.js'
import type {
  OAuthClientInformationMixed,
  OAuthClientMetadata,
  OAuthTokens,
} from '@modelcontextprotocol/sdk/shared/auth.js'
import { expect, test } from 'vitest'

import { MemoryGatewayStore } from '../../../store/memory-store.ts'
import { facadeAuth } from './facade-auth.ts'

const RESOURCE = 'https://gateway.example/mcp'
const REDIRECT = 'http://localhost:4444/callback'

test('the client of the MCP SDK finds, registers, signs in, and renews by itself', async () => {
  await using store = new MemoryGatewayStore()
  const auth = facadeAuth({
    store,
    resource: RESOURCE,
    identity: {
      loginUrl: ({ callback, state }) => `${callback}?code=upstream&state=${state}`,
      exchange: async () => ({ claims: { sub: 'ann' }, refreshToken: 'r' }),
      refresh: async () => ({ claims: { sub: 'ann' }, refreshToken: 'r' }),
    },
  })
  const gateway = async (input: string | URL, init?: RequestInit): Promise<Response> =>
    (await auth.handle?.(new Request(input, init))) ?? new Response(null, { status: 404 })

  let client: OAuthClientInformationMixed | undefined
  let tokens: OAuthTokens | undefined
  let verifier = ''
  let sentTo: URL | undefined
  const metadata: OAuthClientMetadata = { redirect_uris: [REDIRECT], client_name: 'test' }
  const provider = {
    redirectUrl: REDIRECT,
    clientMetadata: metadata,
    clientInformation: () => client,
    saveClientInformation: (information: OAuthClientInformationMixed) =>
      void (client = information),
    tokens: () => tokens,
    saveTokens: (issued: OAuthTokens) => void (tokens = issued),
    redirectToAuthorization: (url: URL) => void (sentTo = url),
    saveCodeVerifier: (made: string) => void (verifier = made),
    codeVerifier: () => verifier,
  }
  const refused = await auth.authenticate({ method: 'POST', url: RESOURCE, headers: new Headers() })
  const header = (refused as Response).headers.get('www-authenticate') ?? ''
  const resourceMetadataUrl = new URL(/resource_metadata="([^"]+)"/.exec(header)?.[1] ?? '')
  const options = { serverUrl: RESOURCE, fetchFn: gateway, resourceMetadataUrl }

  expect(await signIn(provider, options)).toBe('REDIRECT')
  // The browser: to the gateway, to the identity service and back, and to the client.
  let at = await gateway(sentTo ?? '')
  at = await gateway(at.headers.get('location') ?? '')
  const back = new URL(at.headers.get('location') ?? '')
  expect(back.href.startsWith(REDIRECT)).toBe(true)
  const authorizationCode = back.searchParams.get('code') ?? ''
  expect(await signIn(provider, { ...options, authorizationCode })).toBe('AUTHORIZED')
  const callerOf = (): Promise<unknown> =>
    auth.authenticate({
      method: 'POST',
      url: RESOURCE,
      headers: new Headers({ authorization: `Bearer ${tokens?.access_token}` }),
    })
  await expect(callerOf()).resolves.toMatchObject({ id: 'https://gateway.example|ann' })

  const first = tokens?.access_token
  expect(await signIn(provider, options)).toBe('AUTHORIZED')
  expect(tokens?.access_token).not.toBe(first)
  await expect(callerOf()).resolves.toMatchObject({ id: 'https://gateway.example|ann' })
})
