import { CodedError } from '@x/internal'

/** Metadata that a client sends when it registers (RFC 7591, section 2). */
export interface OAuthClientMetadata {
  readonly redirect_uris: readonly string[]
  /** `offline_access` is requested only if this lists `refresh_token`. */
  readonly grant_types?: readonly string[] | undefined
  /** Requested if neither the challenge nor the server's metadata name scopes. */
  readonly scope?: string | undefined
  readonly [field: string]: unknown
}

/** A registered client (RFC 7591, section 3.2.1). */
export interface OAuthClientInformation {
  readonly client_id: string
  readonly client_secret?: string | undefined
  readonly redirect_uris?: readonly string[] | undefined
  /** Issuer that registered the client. Set by the transport; store it unchanged. */
  readonly issuer?: string | undefined
  readonly [field: string]: unknown
}

/** A token response (RFC 6749, section 5.1). */
export interface OAuthTokens {
  readonly access_token: string
  readonly token_type: string
  readonly refresh_token?: string | undefined
  readonly scope?: string | undefined
  /** Issuer of the tokens. Set by the transport; store it unchanged. */
  readonly issuer?: string | undefined
  /** Origin of the MCP server that the tokens are for. Set by the transport; store it unchanged. */
  readonly server?: string | undefined
  readonly [field: string]: unknown
}

/** An authorization whose callback has not come yet. Set by the transport; store it unchanged. */
export interface OAuthDiscoveryState {
  readonly authorizationServerUrl: string
  /** Metadata of the authorization server (RFC 8414), if it has some. */
  readonly authorizationServerMetadata?:
    | { readonly issuer: string; readonly [field: string]: unknown }
    | undefined
  /** `state` of the authorization request. */
  readonly state?: string | undefined
  /** `scope` of the authorization request. */
  readonly scope?: string | undefined
  /** `redirect_uri` of the authorization request. */
  readonly redirectUrl?: string | undefined
  /** Number of authorizations in a row, this one included, whose callback has not come. */
  readonly unanswered?: number | undefined
  /** The code that the user has not entered yet. A secret. */
  readonly device?: DeviceAuthorization | undefined
}

/** What a user needs to sign in on another device (RFC 8628, section 3.2). Show it only to the user. */
export interface UserCode {
  /** Code that the user enters: 1 to 64 printable characters. */
  readonly userCode: string
  /** Page on which the user enters the code. */
  readonly url: string
  /** Page that contains the code already, for a link or a QR code. Undefined if the server has none. */
  readonly completeUrl?: string | undefined
  /** Time when the code expires, in milliseconds since 1970. At most one hour after its request. */
  readonly expiresAt: number
}

/** A device authorization (RFC 8628) that has not ended. Set by the transport; store it unchanged. */
export interface DeviceAuthorization extends UserCode {
  /** Secret: it is exchanged for the tokens. */
  readonly deviceCode: string
  /** Client that requested the code. */
  readonly clientId: string
  /** Origin of the MCP server that the tokens are for. */
  readonly server: string
  /** Time between two token requests, in milliseconds. */
  readonly intervalMs: number
  /** Earliest time of the next token request, in milliseconds since 1970. */
  readonly nextAt: number
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

/** Key and nonces for DPoP (RFC 9449): a `DpopSession` of `@modelcontextprotocol/client`. */
export interface DpopSession {
  buildProof(request: {
    htm: string
    htu: string | URL
    accessToken?: string
    nonce?: string
  }): Promise<string>
  rememberNonce(url: string | URL, nonce: string): void
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
  /** Undefined without a redirect. Then `prepareTokenRequest` or `showUserCode` is required. */
  readonly redirectUrl: string | URL | undefined
  readonly clientMetadata: OAuthClientMetadata
  /** URL of the client id metadata document of this client. */
  readonly clientMetadataUrl?: string | undefined
  /**
   * Issuer of the authorization server. Selects one of the servers in the resource metadata, or names the server if the
   * MCP server has no such metadata. It may have a private address. The SDKs do not have this property.
   * @default the first server in the metadata, or else the origin of the MCP server
   */
  readonly issuer?: string | undefined
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
  /**
   * Shows the user a code. A provider with this method gets its tokens by the device authorization grant (RFC 8628): the
   * request goes on when the user has entered the code. If it throws, the request fails, and the next one uses the same
   * code, provided that `saveDiscoveryState` stored it. The SDKs do not have this method.
   */
  showUserCode?(code: UserCode, context: RedirectContext): unknown
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
    metadata?: IssuerContext,
  ): MaybePromise<void>
  /** Enables DPoP-bound tokens (RFC 9449). Must return the same session each time. */
  dpop?(): MaybePromise<DpopSession | undefined>
  invalidateCredentials?(
    scope: 'all' | 'client' | 'tokens' | 'verifier' | 'discovery',
  ): MaybePromise<void>
  /** Parameters of the token request for a grant without a user, `grant_type` included. */
  prepareTokenRequest?(scope?: string): MaybePromise<URLSearchParams | undefined>
  saveDiscoveryState?(state: OAuthDiscoveryState): MaybePromise<void>
  /**
   * A state with only `authorizationServerUrl` names the authorization server. Other states, which were saved,
   * name it if the MCP server has no resource metadata.
   */
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
  | 'NOT_REGISTERED' // the authorization server did not register the client
  | 'DISCOVERY_FAILED' // metadata could not be read
  | 'DEVICE_UNSUPPORTED' // the authorization server gives no codes for other devices (RFC 8628)
  | 'ISSUER_MISMATCH' // the response or the credentials belong to another authorization server
  | 'STATE_MISMATCH' // the callback answers another authorization request
  | 'INSECURE_URL' // neither https nor loopback, or a private address that a public server names
  | 'INVALID_RESPONSE' // a response that violates the specifications
  | 'STORE_UNUSABLE' // the token store could not be read or written
  | 'LIBRARY_MISSING' // `@modelcontextprotocol/client` is not installed
  | 'TIMEOUT' // the user did not come back, or did not enter the code, in time

export interface AuthErrorOptions extends ErrorOptions {
  readonly oauthError?: string | undefined
}

const BRAND = Symbol.for('mcp-transport.AuthError')

/** No token could be obtained. Message and cause contain no token, code, secret or query. */
export class AuthError extends CodedError<AuthErrorCode> {
  override readonly name = 'AuthError'
  /**
   * `error` of the authorization server, such as `invalid_grant` (RFC 6749, section 5.2). `invalid_client` also if
   * only the text of the server says that it does not know the client, and `temporarily_unavailable` also if only the
   * status says so (429 and 5xx).
   */
  readonly oauthError: string | undefined

  constructor(code: AuthErrorCode, message: string, options: AuthErrorOptions = {}) {
    super(code, message, options)
    this.oauthError = options.oauthError
    Object.defineProperty(this, BRAND, { value: true })
  }

  /** Like `instanceof`, also for errors of another copy of this package. */
  static is(value: unknown): value is AuthError {
    return typeof value === 'object' && value !== null && BRAND in value
  }
}
