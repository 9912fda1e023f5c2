/** Fields that may hold a text. */
type Texts<Name extends string> = { readonly [Key in Name]?: string | undefined }

/** Metadata that a client sends when it registers (RFC 7591, section 2). */
export interface OAuthClientMetadata extends Texts<
  | 'client_name'
  | 'client_uri'
  | 'jwks_uri'
  | 'logo_uri'
  | 'policy_uri'
  | 'software_id'
  | 'software_statement'
  | 'software_version'
  | 'token_endpoint_auth_method'
  | 'tos_uri'
> {
  readonly redirect_uris: readonly string[]
  /** `native` for desktop, command line and loopback redirects. @default derived from the redirect URIs */
  readonly application_type?: string | undefined
  /** `offline_access` is requested only if this lists `refresh_token`. */
  readonly grant_types?: readonly string[] | undefined
  readonly response_types?: readonly string[] | undefined
  /** Requested if neither the challenge nor the server's metadata name scopes. */
  readonly scope?: string | undefined
  readonly contacts?: readonly string[] | undefined
  readonly jwks?: unknown
}

/** A registered client. */
export interface OAuthClientInformation extends Texts<
  'client_secret' | 'token_endpoint_auth_method'
> {
  readonly client_id: string
  readonly client_id_issued_at?: number | undefined
  /** Seconds since 1970; 0 for never. */
  readonly client_secret_expires_at?: number | undefined
  readonly redirect_uris?: readonly string[] | undefined
  /** Issuer that registered the client. Set by the transport; store it unchanged. */
  readonly issuer?: string | undefined
}

/** A token response (RFC 6749, section 5.1). */
export interface OAuthTokens extends Texts<'id_token' | 'refresh_token' | 'scope'> {
  readonly access_token: string
  readonly token_type: string
  /** Lifetime in seconds, from the time of the response. */
  readonly expires_in?: number | undefined
  /** Issuer of the tokens. Set by the transport; store it unchanged. */
  readonly issuer?: string | undefined
  /** Origin of the MCP server that the tokens are for. Set by the transport; store it unchanged. */
  readonly server?: string | undefined
}

/** Metadata of a protected resource, here of the MCP server (RFC 9728). */
export interface ProtectedResourceMetadata {
  readonly resource: string
  readonly authorization_servers?: readonly string[] | undefined
  readonly scopes_supported?: readonly string[] | undefined
  readonly [key: string]: unknown
}

/** Metadata of an authorization server (RFC 8414, or OpenID Connect Discovery). */
export interface AuthorizationServerMetadata extends Texts<
  'authorization_endpoint' | 'registration_endpoint' | 'token_endpoint'
> {
  readonly issuer: string
  readonly scopes_supported?: readonly string[] | undefined
  readonly [key: string]: unknown
}

/** Result of the discovery before a redirect. The callback is checked against it, possibly in another process. */
export interface OAuthDiscoveryState {
  /** Issuer of the authorization server. */
  readonly authorizationServerUrl: string
  readonly authorizationServerMetadata?: AuthorizationServerMetadata | undefined
  readonly resourceMetadata?: ProtectedResourceMetadata | undefined
  readonly resourceMetadataUrl?: string | undefined
  /** `state` of the authorization request. The SDKs do not have this field. */
  readonly state?: string | undefined
}

/** Names the authorization server, for providers that keep credentials for several. */
export interface IssuerContext {
  readonly issuer: string
}

/** Context of a redirect. */
export interface RedirectContext {
  /** Aborts when no request waits for the authorization any more. */
  readonly signal: AbortSignal
}

/** Key and nonces for DPoP (RFC 9449). `DpopSession` of `@modelcontextprotocol/client` fits. */
export interface DpopSession {
  buildProof(request: {
    htm: string
    htu: string | URL
    accessToken?: string
    nonce?: string
  }): Promise<string>
  rememberNonce(url: string | URL, nonce: string): void
  observeNonce(response: Response, url: string | URL): void
}

/** The callback to the redirect URL: the URL, its query, or only the code. */
export type AuthorizationCallback = string | URL | URLSearchParams

type MaybePromise<Value> = Value | Promise<Value>

/**
 * Keeps the credentials for one MCP server, and sends its user to the authorization server. Providers written
 * for `@modelcontextprotocol/sdk` (v1) or `@modelcontextprotocol/client` (v2) fit. One provider object holds
 * one set of credentials: transports that share the object share its refreshes.
 */
export interface OAuthClientProvider {
  /** Undefined if no user is involved. Then `prepareTokenRequest` or the client credentials grant gets the token. */
  readonly redirectUrl: string | URL | undefined
  readonly clientMetadata: OAuthClientMetadata
  /** URL of the client id metadata document of this client. */
  readonly clientMetadataUrl?: string | undefined
  /** `state` of an authorization request. @default a random value */
  state?(): MaybePromise<string>
  /** Undefined if the client is not registered yet. */
  clientInformation(context?: IssuerContext): MaybePromise<OAuthClientInformation | undefined>
  /** Required for dynamic registration. */
  saveClientInformation?(
    information: OAuthClientInformation,
    context?: IssuerContext,
  ): MaybePromise<void>
  /** Called before every request. */
  tokens(context?: IssuerContext): MaybePromise<OAuthTokens | undefined>
  saveTokens(tokens: OAuthTokens, context?: IssuerContext): MaybePromise<void>
  /** Called before a redirect, to make the redirect URL ready. The SDKs do not have this method. */
  prepareRedirect?(context: RedirectContext): MaybePromise<void>
  /**
   * Sends the user to `url`. If the provider can wait for the user, it returns the callback and the request
   * goes on. Otherwise the request fails with `UNAUTHORIZED`, and `finishAuth` takes the callback.
   */
  redirectToAuthorization(url: URL, context?: RedirectContext): unknown
  saveCodeVerifier(codeVerifier: string): MaybePromise<void>
  codeVerifier(): MaybePromise<string>
  /**
   * Runs `work`, a refresh, while no other process runs one with these credentials. The SDKs do not have this
   * method. @default no lock
   */
  exclusively?(work: () => Promise<void>): Promise<void>
  /** Replaces the client authentication at the token endpoint: changes headers and parameters. */
  addClientAuthentication?(
    headers: Headers,
    params: URLSearchParams,
    url: string | URL,
    metadata?: AuthorizationServerMetadata,
  ): MaybePromise<void>
  /** Enables DPoP-bound tokens (RFC 9449). Must return the same session each time. */
  dpop?(): MaybePromise<DpopSession | undefined>
  /** Replaces the check of `resource` in the server's metadata; throws if it does not fit. */
  validateResourceURL?(serverUrl: string | URL, resource?: string): Promise<URL | undefined>
  /** `scope` of a refresh. @default none, which asks for the scope granted before */
  scopeForRefresh?(tokens: OAuthTokens): MaybePromise<string | undefined>
  invalidateCredentials?(
    scope: 'all' | 'client' | 'tokens' | 'verifier' | 'discovery',
  ): MaybePromise<void>
  /** Parameters of the token request for a grant without a user, `grant_type` included. */
  prepareTokenRequest?(scope?: string): MaybePromise<URLSearchParams | undefined>
  /** Told the issuer and the resource after discovery. Cross-app access needs both. */
  saveAuthorizationServerUrl?(issuer: string): MaybePromise<void>
  saveResourceUrl?(resource: string): MaybePromise<void>
  saveDiscoveryState?(state: OAuthDiscoveryState): MaybePromise<void>
  discoveryState?(): MaybePromise<OAuthDiscoveryState | undefined>
}

/** A refused request, for a provider that can get another token. */
export interface UnauthorizedContext {
  /** Status, headers and the start of the body of the 401. */
  readonly response: Response
  readonly serverUrl: URL
  /** Sends requests over the transport's dispatcher, with limits and without the caller's headers. */
  readonly fetchFn: (url: string | URL, init?: RequestInit) => Promise<Response>
}

export interface TokenContext {
  /** The token that the server has just refused. */
  readonly refused?: string | undefined
}

/** Gives tokens, without OAuth. `AuthProvider` of SDK v2 fits. */
export interface TokenProvider {
  /** Called before every request, and after a 401 with the token that was refused. */
  token(context?: TokenContext): MaybePromise<string | undefined>
  /** Called after a 401, once for all requests with the same token; then `token` is called again. */
  onUnauthorized?(context: UnauthorizedContext): MaybePromise<void>
}

/** Value of the `authProvider` option of a transport. */
export type AuthProvider = OAuthClientProvider | TokenProvider

export function isOAuthClientProvider(provider: AuthProvider): provider is OAuthClientProvider {
  return 'tokens' in provider && 'clientInformation' in provider
}

/** The tokens of a provider, unless they are for another server: two providers may share a store by mistake. */
export async function storedTokens(
  provider: OAuthClientProvider,
  serverUrl: URL,
  context?: IssuerContext,
): Promise<OAuthTokens | undefined> {
  const tokens = await provider.tokens(context)
  return tokens?.server === undefined || tokens.server === serverUrl.origin ? tokens : undefined
}

/** Reason for a missing token. Stable: callers switch on it. */
export type AuthErrorCode =
  | 'AUTHORIZATION_REQUIRED' // the user was sent to the authorization server: `finishAuth` completes it
  | 'DENIED' // the user or the authorization server refused access
  | 'TOKEN_REFUSED' // the token endpoint, or the provider, gave no usable token
  | 'DISCOVERY_FAILED' // metadata could not be read
  | 'RESOURCE_MISMATCH' // the metadata describes another server
  | 'ISSUER_MISMATCH' // the response or the credentials belong to another authorization server
  | 'STATE_MISMATCH' // the callback answers another authorization request
  | 'PKCE_UNSUPPORTED' // the authorization server does not advertise S256
  | 'INSECURE_URL' // neither https nor loopback
  | 'NOT_REGISTERED' // the authorization server does not know the client, and the client cannot register
  | 'INVALID_RESPONSE' // a response that violates the specifications
  | 'STORE_UNUSABLE' // the token store could not be read or written
  | 'LIBRARY_MISSING' // `@modelcontextprotocol/client` is not installed
  | 'TIMEOUT' // the user did not come back in time

export interface AuthErrorOptions extends ErrorOptions {
  readonly oauthError?: string | undefined
}

const BRAND = Symbol.for('mcp-transport.AuthError')

/** No token could be obtained. Message and cause contain no token, code, secret or query. */
export class AuthError extends Error {
  override readonly name = 'AuthError'
  readonly code: AuthErrorCode
  /** `error` of the authorization server, such as `invalid_grant` (RFC 6749, section 5.2). */
  readonly oauthError: string | undefined

  constructor(code: AuthErrorCode, message: string, options: AuthErrorOptions = {}) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined)
    this.code = code
    this.oauthError = options.oauthError
    Object.defineProperty(this, BRAND, { value: true })
  }

  /** Like `instanceof`, also for errors of another copy of this package. */
  static is(value: unknown): value is AuthError {
    return typeof value === 'object' && value !== null && BRAND in value
  }
}
