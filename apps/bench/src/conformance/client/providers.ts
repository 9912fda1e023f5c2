import {
  CrossAppAccessProvider,
  DpopSession,
  PrivateKeyJwtProvider,
  requestJwtAuthorizationGrant,
} from '@modelcontextprotocol/client'
import { clientCredentials } from '@x/mcp-transport/auth'
import type {
  AuthProvider,
  OAuthClientInformation,
  OAuthClientMetadata,
  OAuthClientProvider,
  OAuthTokens,
} from '@x/mcp-transport/auth'

/** The provider for a scenario: ours, or that of the SDK where we have none. */
export async function providerFor(scenario: string, context: unknown): Promise<AuthProvider> {
  const text = (name: string): string => textIn(context, name) ?? ''
  const clientId = text('client_id')
  const clientSecret = text('client_secret')
  switch (scenario) {
    case 'auth/client-credentials-basic':
      return clientCredentials({ clientId, clientSecret })
    case 'auth/client-credentials-jwt':
      return new PrivateKeyJwtProvider({
        clientId,
        privateKey: text('private_key_pem'),
        algorithm: text('signing_algorithm'),
      })
    case 'auth/enterprise-managed-authorization':
      return new CrossAppAccessProvider({
        clientId,
        clientSecret,
        async assertion({ authorizationServerUrl, resourceUrl, scope, fetchFn }) {
          const { jwtAuthGrant } = await requestJwtAuthorizationGrant({
            tokenEndpoint: text('idp_token_endpoint'),
            audience: authorizationServerUrl,
            resource: resourceUrl,
            idToken: text('idp_id_token'),
            clientId: text('idp_client_id'),
            fetchFn,
            ...(scope !== undefined && { scope }),
          })
          return jwtAuthGrant
        },
      })
    case 'auth/wif-jwt-bearer':
      return clientCredentials({ clientId, assertion: () => text('valid_jwt') })
    case 'auth/dpop':
    case 'auth/dpop-nonce':
      return new HeadlessProvider(undefined, await DpopSession.create())
    default:
      return new HeadlessProvider(registeredClientFrom(context))
  }
}

/** The client that the scenario has registered before, if there is one. */
function registeredClientFrom(context: unknown): RegisteredClient | undefined {
  const id = textIn(context, 'client_id')
  const secret = textIn(context, 'client_secret')
  const issuer = textIn(context, 'issuer')
  if (id === undefined || secret === undefined) return undefined
  const credentials = { client_id: id, client_secret: secret }
  return issuer === undefined ? credentials : { ...credentials, issuer }
}

function textIn(context: unknown, name: string): string | undefined {
  if (typeof context !== 'object' || context === null) return undefined
  const value: unknown = Reflect.get(context, name)
  return typeof value === 'string' ? value : undefined
}

interface RegisteredClient {
  readonly client_id: string
  readonly client_secret: string
  readonly issuer?: string
}

/** Keeps credentials in memory. The suite has no login page: its authorization server redirects at once. */
class HeadlessProvider implements OAuthClientProvider {
  readonly redirectUrl = 'http://localhost:3000/callback'
  /** URL that the suite expects. It is never fetched. */
  readonly clientMetadataUrl = 'https://conformance-test.local/client-metadata.json'
  readonly clientMetadata: OAuthClientMetadata = {
    client_name: 'conformance-client',
    application_type: 'native',
    redirect_uris: [this.redirectUrl],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
  }
  #client: OAuthClientInformation | undefined
  #tokens: OAuthTokens | undefined
  #codeVerifier = ''
  readonly #dpop: DpopSession | undefined

  constructor(client?: RegisteredClient, dpop?: DpopSession) {
    this.#client = client
    this.#dpop = dpop
  }

  dpop(): DpopSession | undefined {
    return this.#dpop
  }

  clientInformation(): OAuthClientInformation | undefined {
    return this.#client
  }

  saveClientInformation(client: OAuthClientInformation): void {
    this.#client = client
  }

  tokens(): OAuthTokens | undefined {
    return this.#tokens
  }

  saveTokens(tokens: OAuthTokens): void {
    this.#tokens = tokens
  }

  codeVerifier(): string {
    return this.#codeVerifier
  }

  saveCodeVerifier(codeVerifier: string): void {
    this.#codeVerifier = codeVerifier
  }

  /** Returns the URL of the redirect back to the client. */
  async redirectToAuthorization(url: URL): Promise<URL> {
    const response = await fetch(url, { redirect: 'manual' })
    await response.body?.cancel()
    const location = response.headers.get('location')
    if (location === null) {
      throw new Error(`The authorization server answered ${response.status} without a redirect`)
    }
    return new URL(location, url)
  }

  invalidateCredentials(scope: 'all' | 'client' | 'tokens' | 'verifier' | 'discovery'): void {
    if (scope === 'all' || scope === 'client') this.#client = undefined
    if (scope === 'all' || scope === 'tokens') this.#tokens = undefined
    if (scope === 'all' || scope === 'verifier') this.#codeVerifier = ''
  }
}
