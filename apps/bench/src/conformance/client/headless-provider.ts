import type {
  DpopSession,
  OAuthClientInformation,
  OAuthClientMetadata,
  OAuthClientProvider,
  OAuthTokens,
} from '@x/mcp-transport/auth'

export interface RegisteredClient {
  readonly client_id: string
  readonly client_secret: string
  readonly issuer?: string
}

/**
 * Credentials in memory, and a user who says yes to everything at once: the authorization server of the
 * suite answers the request for the page with the redirect itself.
 */
export class HeadlessProvider implements OAuthClientProvider {
  readonly redirectUrl = 'http://localhost:3000/callback'
  /** The document that the suite expects of a client that has one; it is never fetched. */
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

  /** Returns the URL that the user would come back to. */
  async redirectToAuthorization(url: URL): Promise<URL> {
    const response = await fetch(url, { redirect: 'manual' })
    await response.body?.cancel()
    const location = response.headers.get('location')
    if (location === null) {
      throw new Error(`The authorization page answered ${response.status}, without a redirect`)
    }
    return new URL(location, url)
  }

  invalidateCredentials(scope: 'all' | 'client' | 'tokens' | 'verifier' | 'discovery'): void {
    if (scope === 'all' || scope === 'client') this.#client = undefined
    if (scope === 'all' || scope === 'tokens') this.#tokens = undefined
    if (scope === 'all' || scope === 'verifier') this.#codeVerifier = ''
  }
}
