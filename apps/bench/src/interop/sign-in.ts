import { facadeAuth, MemoryGatewayStore } from '@x/mcp-gateway'
import type { IdentityService } from '@x/mcp-gateway'
import {
  Client as ClientV2,
  StreamableHTTPClientTransport as HttpV2,
  UnauthorizedError as UnauthorizedV2,
} from '@modelcontextprotocol/client'
import type { OAuthClientProvider } from '@modelcontextprotocol/client'
import { UnauthorizedError as UnauthorizedV1 } from '@modelcontextprotocol/sdk/client/auth.js'
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { freePort } from '@x/mcp-testing'
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

const CALL = { name: 'support_ask', arguments: { message: 'May I?' } }

/** Gives the client the URL only: it discovers the authorization server (RFC 9728), registers, and gets a token. */
export async function signsIn(version: SdkVersion): Promise<void> {
  await using store = new MemoryGatewayStore()
  const port = await freePort()
  const resource = `http://127.0.0.1:${port}/mcp`
  const auth = facadeAuth({ store, resource, identity })
  await using gateway = interopGateway({ auth, store })
  await gateway.listen({ port })
  const browser = new Browser()
  const { connect, finish, call } = (version === 'v1' ? v1 : v2)(new URL(resource), browser)
  const refused = await connect().then(
    () => 'a connection',
    (error: unknown) => (isUnauthorized(error) ? 'refused' : String(error)),
  )
  expectThat(refused === 'refused', `expected an UnauthorizedError, got ${refused}`)
  await finish(await browser.signIn())
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

function v1(url: URL, authProvider: OAuthClientProvider): SigningIn {
  const client = new ClientV1(CLIENT_INFO)
  const transport = (): HttpV1 => new HttpV1(url, { authProvider })
  return {
    connect: () => client.connect(transport()),
    finish: (callback) => transport().finishAuth(callback.get('code') ?? ''),
    call: async () => {
      const answer = JSON.stringify(await client.callTool(CALL))
      await client.close()
      return answer
    },
  }
}

function v2(url: URL, authProvider: OAuthClientProvider): SigningIn {
  const client = new ClientV2(CLIENT_INFO, { versionNegotiation: { mode: 'auto' } })
  const transport = (): HttpV2 => new HttpV2(url, { authProvider })
  return {
    connect: () => client.connect(transport()),
    finish: (callback) => transport().finishAuth(callback),
    call: async () => {
      const answer = JSON.stringify(await client.callTool(CALL))
      await client.close()
      return answer
    },
  }
}

function isUnauthorized(error: unknown): boolean {
  return error instanceof UnauthorizedV1 || error instanceof UnauthorizedV2
}

type Discovery = Parameters<NonNullable<OAuthClientProvider['saveDiscoveryState']>>[0]

/** A user with a browser, and the stored state of the client. */
class Browser implements OAuthClientProvider {
  readonly redirectUrl = 'http://127.0.0.1:4444/callback'
  readonly clientMetadata = { redirect_uris: [this.redirectUrl], client_name: 'interop' }
  #client: ReturnType<OAuthClientProvider['clientInformation']>
  #tokens: ReturnType<OAuthClientProvider['tokens']>
  #verifier = ''
  #discovery: Discovery | undefined
  #sentTo: URL | undefined

  clientInformation(): ReturnType<OAuthClientProvider['clientInformation']> {
    return this.#client
  }
  saveClientInformation(
    client: Parameters<NonNullable<OAuthClientProvider['saveClientInformation']>>[0],
  ): void {
    this.#client = client
  }
  tokens(): ReturnType<OAuthClientProvider['tokens']> {
    return this.#tokens
  }
  saveTokens(tokens: Parameters<OAuthClientProvider['saveTokens']>[0]): void {
    this.#tokens = tokens
  }
  discoveryState(): Discovery | undefined {
    return this.#discovery
  }
  saveDiscoveryState(discovery: Discovery): void {
    this.#discovery = discovery
  }
  redirectToAuthorization(url: URL): void {
    this.#sentTo = url
  }
  saveCodeVerifier(verifier: string): void {
    this.#verifier = verifier
  }
  codeVerifier(): string {
    return this.#verifier
  }

  /** Follows the redirects to the identity service, back to the gateway, and to the URL of the client. */
  async signIn(): Promise<URLSearchParams> {
    let at = this.#sentTo
    for (let hops = 0; at !== undefined && hops < 5; hops++) {
      if (at.href.startsWith(this.redirectUrl)) return at.searchParams
      const response = await fetch(at, { redirect: 'manual' })
      const location = response.headers.get('location')
      expectThat(location !== null, `expected a redirect, got ${response.status}`)
      at = new URL(location, at)
    }
    throw new Error('The client was not redirected to sign in, or not redirected back')
  }
}
