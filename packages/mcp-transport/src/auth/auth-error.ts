/** Reason why there is no token. Stable: callers switch on it. */
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

/** There is no token. Message and cause hold no token, code, secret or query. */
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
