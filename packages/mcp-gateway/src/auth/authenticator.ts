import type { Principal } from './principal.ts'

/** Decides who is calling. Ships as `bearerAuth()`, `jwtAuth()`; without one everybody is anonymous. */
export interface Authenticator {
  /**
   * The caller of a request, or the answer that refuses it (401 with `WWW-Authenticate`, 403).
   * Never throws: what cannot be verified is refused.
   */
  authenticate(request: AuthenticationRequest): Promise<Principal | Response>
  /** Serves documents and endpoints of its own (RFC 9728 metadata, the facade); `undefined`: not its path. */
  handle?(request: Request): Promise<Response | undefined>
}

export interface AuthenticationRequest {
  readonly method: string
  /** Of the MCP endpoint as clients see it. */
  readonly url: string
  readonly headers: Headers
}
