import type { Principal } from '../../internal/principal.ts'

/** Authenticates callers: `bearerAuth()`, `jwtAuth()`, or `oauthFacade()` of `@x/mcp-gateway-oauth`. Without one, every caller is anonymous. */
export interface Authenticator {
  /**
   * The caller of a request, or the answer that refuses it: 401 with `WWW-Authenticate`; 503 where whoever could
   * tell cannot be reached. Never throws: what cannot be verified is refused.
   */
  authenticate(request: AuthenticationRequest): Promise<Principal | Response>
  /** Paths that `handle` answers, with all below them. It reads the bodies of their requests itself. @default none */
  readonly paths?: readonly string[] | undefined
  /** Serves metadata (RFC 9728) and endpoints of an authorization server. `undefined` for any other path. Never throws. */
  handle?(request: Request, from?: RequestSource): Promise<Response | undefined>
  /** The answer to a caller that is known, but lacks scopes (RFC 6750 section 3.1). @default a challenge without metadata */
  refuseScopes?(request: AuthenticationRequest, scopes: readonly string[]): Response
  /** Accepts everybody, for development. The gateway refuses to bind a public address with it. @default false */
  readonly isDevMode?: boolean | undefined
}

export interface AuthenticationRequest {
  readonly method: string
  /** Of the MCP endpoint as clients see it. */
  readonly url: string
  readonly headers: Headers
}

/** Where a request came from, as far as the server knows. */
export interface RequestSource {
  /** IP, for limits. */
  readonly address?: string | undefined
}
