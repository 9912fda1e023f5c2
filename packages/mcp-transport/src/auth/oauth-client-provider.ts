/** What a client tells of itself (RFC 7591, section 2). */
export interface OAuthClientMetadata {
  readonly redirect_uris: readonly string[]
  /** `native` for desktop, command line and loopback redirects. @default by the redirect URIs */
  readonly application_type?: string | undefined
  readonly token_endpoint_auth_method?: string | undefined
  /** @default authorization_code and refresh_token, with a redirect */
  readonly grant_types?: readonly string[] | undefined
  readonly response_types?: readonly string[] | undefined
  readonly client_name?: string | undefined
  readonly client_uri?: string | undefined
  readonly logo_uri?: string | undefined
  /** Asked for where neither the challenge nor the server's metadata name scopes. */
  readonly scope?: string | undefined
  readonly contacts?: readonly string[] | undefined
  readonly tos_uri?: string | undefined
  readonly policy_uri?: string | undefined
  readonly jwks_uri?: string | undefined
  readonly jwks?: unknown
  readonly software_id?: string | undefined
  readonly software_version?: string | undefined
  readonly software_statement?: string | undefined
}

/** What an authorization server knows a client by. */
export interface OAuthClientInformation {
  readonly client_id: string
  readonly client_secret?: string | undefined
  readonly client_id_issued_at?: number | undefined
  /** Seconds since 1970; 0 for never. */
  readonly client_secret_expires_at?: number | undefined
  readonly token_endpoint_auth_method?: string | undefined
  readonly redirect_uris?: readonly string[] | undefined
  /** The authorization server that it belongs to. Set by us; store it unchanged. */
  readonly issuer?: string | undefined
}

/** A token response (RFC 6749, section 5.1). */
export interface OAuthTokens {
  readonly access_token: string
  readonly token_type: string
  readonly id_token?: string | undefined
  /** Seconds from when it was issued. */
  readonly expires_in?: number | undefined
  readonly scope?: string | undefined
  readonly refresh_token?: string | undefined
  /** The authorization server that issued them. Set by us; store it unchanged. */
  readonly issuer?: string | undefined
  /** Origin of the MCP server that they are for: no other gets them. Set by us; store it unchanged. */
  readonly server?: string | undefined
}

/** Metadata of the MCP server (RFC 9728). */
export interface ProtectedResourceMetadata {
  readonly resource: string
  readonly authorization_servers?: readonly string[] | undefined
  readonly scopes_supported?: readonly string[] | undefined
  readonly [key: string]: unknown
}

/** Metadata of an authorization server (RFC 8414, or OpenID Connect Discovery). */
export interface AuthorizationServerMetadata {
  readonly issuer: string
  readonly authorization_endpoint?: string | undefined
  readonly token_endpoint?: string | undefined
  readonly registration_endpoint?: string | undefined
  readonly scopes_supported?: readonly string[] | undefined
  readonly code_challenge_methods_supported?: readonly string[] | undefined
  readonly token_endpoint_auth_methods_supported?: readonly string[] | undefined
  readonly client_id_metadata_document_supported?: boolean | undefined
  readonly authorization_response_iss_parameter_supported?: boolean | undefined
  readonly [key: string]: unknown
}

/** What was found before the redirect: the answer is checked against it, maybe in another process. */
export interface OAuthDiscoveryState {
  /** Issuer of the authorization server. */
  readonly authorizationServerUrl: string
  readonly authorizationServerMetadata?: AuthorizationServerMetadata | undefined
  readonly resourceMetadata?: ProtectedResourceMetadata | undefined
  readonly resourceMetadataUrl?: string | undefined
  /** `state` of the authorization request. Ours; the SDKs do not know it. */
  readonly state?: string | undefined
}

/** Whose credentials are meant, for providers that keep some per authorization server. */
export interface IssuerContext {
  readonly issuer: string
}

/** What a redirect has to know. */
export interface RedirectContext {
  /** Aborts when nobody waits for the authorization any more. */
  readonly signal: AbortSignal
}

/** What came back to the redirect URL: the whole query, a URL that has it, or only the code. */
export type AuthorizationCallback = string | URL | URLSearchParams

/**
 * Where the credentials for one MCP server are kept, and how its user is asked. Structurally what
 * `@modelcontextprotocol/sdk` (v1) and `@modelcontextprotocol/client` (v2) call by the same name, so that
 * providers written for either fit. One provider object stands for one set of credentials: transports
 * that share it share refreshes.
 */
export interface OAuthClientProvider {
  /** Undefined where no user is involved: then tokens are asked for with `prepareTokenRequest` or as client credentials. */
  readonly redirectUrl: string | URL | undefined
  readonly clientMetadata: OAuthClientMetadata
  /** Where a client id metadata document of this client is served. */
  readonly clientMetadataUrl?: string | undefined
  /** Value of `state` for an authorization request. @default a random one */
  state?(): string | Promise<string>
  /** Undefined where the client is not registered yet. */
  clientInformation(
    context?: IssuerContext,
  ): OAuthClientInformation | undefined | Promise<OAuthClientInformation | undefined>
  /** Without it the client cannot register itself, and `clientInformation` has to know it. */
  saveClientInformation?(
    information: OAuthClientInformation,
    context?: IssuerContext,
  ): void | Promise<void>
  /** Asked before every request. */
  tokens(context?: IssuerContext): OAuthTokens | undefined | Promise<OAuthTokens | undefined>
  saveTokens(tokens: OAuthTokens, context?: IssuerContext): void | Promise<void>
  /**
   * Called before a user is asked, so that a redirect URL can be made ready. Ours; the SDKs do not know it.
   */
  prepareRedirect?(context: RedirectContext): void | Promise<void>
  /**
   * Sends the user to `url`. One that can wait for the user returns what came back to the redirect URL,
   * and the request that started it goes on; with any other, that request fails with `UNAUTHORIZED` and
   * `finishAuth` takes what came back.
   */
  redirectToAuthorization(url: URL, context?: RedirectContext): unknown
  saveCodeVerifier(codeVerifier: string): void | Promise<void>
  codeVerifier(): string | Promise<string>
  /**
   * Does `work`, a refresh, while no other process does the like with these credentials. Ours; the SDKs do
   * not know it. @default no lock
   */
  exclusively?(work: () => Promise<void>): Promise<void>
  /** Instead of our own client authentication at the token endpoint: changes headers and parameters. */
  addClientAuthentication?(
    headers: Headers,
    params: URLSearchParams,
    url: string | URL,
    metadata?: AuthorizationServerMetadata,
  ): void | Promise<void>
  /** Instead of our own check of the resource in the server's metadata; throws if it does not fit. */
  validateResourceURL?(serverUrl: string | URL, resource?: string): Promise<URL | undefined>
  /** `scope` of a refresh. @default none: what was granted before */
  scopeForRefresh?(tokens: OAuthTokens): string | undefined | Promise<string | undefined>
  invalidateCredentials?(
    scope: 'all' | 'client' | 'tokens' | 'verifier' | 'discovery',
  ): void | Promise<void>
  /** The token request of a grant without a user, `grant_type` included. */
  prepareTokenRequest?(
    scope?: string,
  ): URLSearchParams | undefined | Promise<URLSearchParams | undefined>
  saveDiscoveryState?(state: OAuthDiscoveryState): void | Promise<void>
  discoveryState?(): OAuthDiscoveryState | undefined | Promise<OAuthDiscoveryState | undefined>
}
