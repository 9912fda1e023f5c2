import {
  Client as ClientV2,
  StreamableHTTPClientTransport as HttpV2,
  UnauthorizedError as UnauthorizedV2,
} from '@modelcontextprotocol/client'
import type { OAuthClientProvider } from '@modelcontextprotocol/client'
import { UnauthorizedError as UnauthorizedV1 } from '@modelcontextprotocol/sdk/client/auth.js'
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { MemoryGatewayStore } from '@x/mcp-gateway'
import { oauthFacade } from '@x/mcp-gateway-oauth'
import type { IdentityService } from '@x/mcp-gateway-oauth'
import { freePort } from '@x/mcp-testing'
import { createAuthProvider } from '@x/mcp-transport/auth'
import { signIn } from '../sign-in.ts'
import { expectContains, expectThat } from './check.ts'
import { CLIENT_INFO } from './clients.ts'
import type { SdkVersion } from './clients.ts'
import { interopGateway } from './gateway-server.ts'

/** Signs every user in as Ann, without a page. */
const identity: IdentityService = {
  loginUrl: ({ callback, state }) => `${callback}?code=upstream&state=${state}`,
  exchange: async () => ({ claims: { sub: 'ann' } }),
  refresh: () => Promise.reject(new Error('no refresh is expected')),
}

const REDIRECT_URL = 'http://127.0.0.1:4444/callback'
const CALL = { name: 'support_ask', arguments: { message: 'May I?' } }

/** Gives the client the URL only: it discovers the authorization server (RFC 9728), registers, and gets a token. */
export async function signsIn(version: SdkVersion): Promise<void> {
  await using store = new MemoryGatewayStore()
  const port = await freePort()
  const resource = `http://127.0.0.1:${port}/mcp`
  const auth = oauthFacade({ store, resource, identity })
  await using gateway = interopGateway({ auth, store })
  await gateway.listen({ port })
  const page = Promise.withResolvers<URL>()
  const provider = createAuthProvider({
    redirectUrl: REDIRECT_URL,
    redirect: (url) => page.resolve(url),
    clientName: 'interop',
  }) as OAuthClientProvider
  const { connect, finish, call } = CLIENTS[version](new URL(resource), provider)
  const refused = await connect().then(
    () => 'a connection',
    (error: unknown) =>
      error instanceof UnauthorizedV1 || error instanceof UnauthorizedV2 ? '401' : String(error),
  )
  expectThat(refused === '401', `expected an UnauthorizedError, got ${refused}`)
  await finish((await signIn(await page.promise, REDIRECT_URL)).searchParams)
  await connect()
  expectContains(await call(), 'You said: May I?')
}

interface SigningIn {
  readonly connect: () => Promise<void>
  /** Gets the query of the redirect back to the client. */
  readonly finish: (callback: URLSearchParams) => Promise<void>
  /** Calls a tool, and closes the client. */
  readonly call: () => Promise<string>
}

const CLIENTS: Readonly<
  Record<SdkVersion, (url: URL, authProvider: OAuthClientProvider) => SigningIn>
> = {
  v1(url, authProvider) {
    const client = new ClientV1(CLIENT_INFO)
    const transport = (): HttpV1 => new HttpV1(url, { authProvider })
    return {
      connect: () => client.connect(transport()),
      finish: (callback) => transport().finishAuth(callback.get('code') ?? ''),
      call: () => callAndClose(client),
    }
  },
  v2(url, authProvider) {
    const client = new ClientV2(CLIENT_INFO, { versionNegotiation: { mode: 'auto' } })
    const transport = (): HttpV2 => new HttpV2(url, { authProvider })
    return {
      connect: () => client.connect(transport()),
      finish: (callback) => transport().finishAuth(callback),
      call: () => callAndClose(client),
    }
  },
}

async function callAndClose(client: ClientV1 | ClientV2): Promise<string> {
  const answer = JSON.stringify(await client.callTool(CALL))
  await client.close()
  return answer
}
