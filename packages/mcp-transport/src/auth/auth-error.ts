/** Why there is no token. Stable: callers switch on it. */
export type AuthErrorCode =
  | 'AUTHORIZATION_REQUIRED' // the user was sent to the authorization server: `finishAuth` goes on
  | 'DENIED' // the user or the authorization server said no
  | 'TOKEN_REFUSED' // the token endpoint answered with an error
  | 'DISCOVERY_FAILED' // metadata could not be read
  | 'RESOURCE_MISMATCH' // the metadata is of another server
  | 'ISSUER_MISMATCH' // an answer of another authorization server than the one that was asked
  | 'STATE_MISMATCH' // an answer to another authorization request
  | 'PKCE_UNSUPPORTED' // the authorization server does not say that it checks S256
  | 'INSECURE_URL' // neither https nor loopback
  | 'NOT_REGISTERED' // the client is unknown to this authorization server and cannot register
  | 'INVALID_RESPONSE' // an answer that is not what the specifications say
  | 'STORE_UNUSABLE' // the token store could not be read or written
  | 'TIMEOUT' // nobody came back from the authorization server in time

export interface AuthErrorOptions extends ErrorOptions {
  readonly oauthError?: string | undefined
}

const BRAND = Symbol.for('mcp-transport.AuthError')

/** No token could be had. Holds no token, code, secret or query. */
export class AuthError extends Error {
  override readonly name = 'AuthError'
  readonly code: AuthErrorCode
  /** `error` as the authorization server gave it, such as `invalid_grant` (RFC 6749, section 5.2). */
  readonly oauthError: string | undefined

  constructor(code: AuthErrorCode, message: string, options: AuthErrorOptions = {}) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined)
    this.code = code
    this.oauthError = options.oauthError
    Object.defineProperty(this, BRAND, { value: true })
  }

  /** `instanceof` that also knows errors made by another copy of this package. */
  static is(value: unknown): value is AuthError {
    return typeof value === 'object' && value !== null && BRAND in value
  }
}
