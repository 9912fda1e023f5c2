import type { FacadeParts } from './facade-parts.ts'
import { oauthError, type OAuthErrorName, singleValues } from './oauth-answer.ts'
import { isChallenge } from './pkce.ts'
import { redirectTo } from './redirect-uri.ts'

/**
 * `GET /oauth/authorize`. Until client and redirect URI are known to belong together, nobody is redirected; from then
 * on errors go to the client (RFC 6749 section 4.1.2.1).
 */
export async function authorize(parts: FacadeParts, request: Request): Promise<Response> {
  const query = singleValues(new URL(request.url).searchParams)
  const { client_id: clientId, redirect_uri: redirectUri } = query ?? {}
  if (!query || !clientId || !redirectUri) return oauthError('invalid_request')
  const client = await parts.clients.find(clientId)
  if (!client) return oauthError('invalid_client', 401)
  if (!client.mayRedirectTo(redirectUri)) return oauthError('invalid_request')

  const { state, scope = '', code_challenge: codeChallenge } = query
  const refuse = (error: OAuthErrorName): Response =>
    redirectTo(redirectUri, { error, state, iss: parts.issuer })
  if (query['response_type'] !== 'code') return refuse('unsupported_response_type')
  if (query['code_challenge_method'] !== 'S256' || !isChallenge(codeChallenge)) {
    return refuse('invalid_request')
  }
  const { resource } = query
  if (resource !== undefined && !isSameResource(resource, parts.resource))
    return refuse('invalid_target')
  const begun = await parts.grants.begin({
    clientId,
    redirectUri,
    codeChallenge,
    clientState: state,
    scopes: scope.split(' ').filter((each) => each !== ''),
  })
  return redirectTo(parts.identity.loginUrl({ callback: parts.callback, state: begun }), {})
}

/** What a token is to be for (RFC 8707). Some clients write a slash behind, or leave it out. */
export function isSameResource(one: string, other: string): boolean {
  return one.replace(/\/$/, '') === other.replace(/\/$/, '')
}
