export interface AuthorizationRequest {
  readonly endpoint: URL
  readonly clientId: string
  readonly redirectUri: string
  /** PKCE, S256 (RFC 7636). */
  readonly codeChallenge: string
  readonly state: string
  /** RFC 8707 */
  readonly resource: string
  readonly scope: string | undefined
}

/** Where the user is sent; the endpoint's own query is kept (RFC 6749, section 3.1). */
export function authorizationUrl(request: AuthorizationRequest): URL {
  const { endpoint, clientId, redirectUri, codeChallenge, state, resource, scope } = request
  const url = new URL(endpoint)
  const { searchParams } = url
  searchParams.set('response_type', 'code')
  searchParams.set('client_id', clientId)
  searchParams.set('redirect_uri', redirectUri)
  searchParams.set('code_challenge', codeChallenge)
  searchParams.set('code_challenge_method', 'S256')
  searchParams.set('state', state)
  searchParams.set('resource', resource)
  if (scope === undefined) return url
  searchParams.set('scope', scope)
  // OpenID Connect, section 11: without it, servers ignore the scope.
  if (scope.split(' ').includes('offline_access')) searchParams.set('prompt', 'consent')
  return url
}
