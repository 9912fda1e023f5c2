/** A signed-in user, as the identity service describes it. */
export interface Identity {
  readonly claims: Readonly<Record<string, unknown>>
  /** Refresh token of the identity service. It never leaves the gateway. */
  readonly refreshToken?: string | undefined
  /** Time for which the claims are valid. Seconds. */
  readonly expiresInSec?: number | undefined
}

/** Signs people in. Tokens that it issues stay between it and the gateway. */
export interface IdentityService {
  /** Returns the URL of the sign-in page. It sends the browser to `callback` with a `code` and this `state`. */
  loginUrl(request: { readonly callback: string; readonly state: string }): string
  /** @throws IdentityServiceError */
  exchange(code: string, callback: string): Promise<Identity>
  /** @throws IdentityServiceError */
  refresh(refreshToken: string): Promise<Identity>
}

/**
 * Says why an `IdentityService` gives no identity.
 *
 * @example
 * ```ts
 * import { IdentityServiceError } from '@x/mcp-gateway-oauth'
 *
 * const refused = new IdentityServiceError('refused', 'The code is not valid')
 * ```
 */
export class IdentityServiceError extends Error {
  override readonly name = 'IdentityServiceError'
  /** `refused`: the service answered 400, so the code or token is not valid. `failed`: any other wrong answer. */
  readonly reason: 'refused' | 'failed' | 'unreachable'

  constructor(reason: IdentityServiceError['reason'], message: string, options?: ErrorOptions) {
    super(message, options)
    this.reason = reason
  }
}
