import type { FacadeParts } from './facade-parts.ts'
import type { Grant } from './grants.ts'
import { type Identity, IdentityServiceError } from './identity-service.ts'
import { oauthError, singleValues } from './oauth-answer.ts'
import { redirectTo } from './redirect-uri.ts'

/** How long access lasts where the identity service does not say, and at most. */
const MAX_ACCESS_SEC = 3600

/** `GET /oauth/callback`: the browser comes back from the identity service. */
export async function callback(parts: FacadeParts, request: Request): Promise<Response> {
  const query = singleValues(new URL(request.url).searchParams)
  const { state, code, error } = query ?? {}
  const pending = state && (await parts.grants.takePending(state))
  if (!pending) return oauthError('invalid_request')
  const { redirectUri, clientState } = pending
  if (error !== undefined) {
    return redirectTo(redirectUri, {
      error: 'access_denied',
      state: clientState,
      iss: parts.issuer,
    })
  }
  if (!code) return oauthError('invalid_request')
  try {
    const identity = await parts.identity.exchange(code, parts.callback)
    const { scopes } = pending
    const grant = grantOf(parts, identity, scopes.length === 0 ? 'all' : scopes)
    const { clientId, codeChallenge } = pending
    await parts.clients.keep(clientId)
    const given = await parts.grants.putCode({ ...grant, clientId, redirectUri, codeChallenge })
    return redirectTo(redirectUri, { code: given, state: clientState, iss: parts.issuer })
  } catch (cause) {
    parts.onError(cause)
    return oauthError('server_error', statusOf(cause))
  }
}

/**
 * What somebody gets of what was asked for; `all`: what they may do.
 *
 * @throws IdentityServiceError if it is not said who it is
 */
export function grantOf(
  { issuer, principalClaim, scopesOf }: FacadeParts,
  { claims, refreshToken, expiresInSec = MAX_ACCESS_SEC }: Identity,
  asked: readonly string[] | 'all',
): Grant {
  const name = claims[principalClaim]
  if (typeof name !== 'string' || name === '') {
    throw new IdentityServiceError('failed', `It gave no claim "${principalClaim}"`)
  }
  const allowed = scopesOf(claims)
  const scopes =
    asked === 'all'
      ? allowed
      : asked.filter((scope) => allowed.includes(scope) || allowed.includes('*'))
  const accessTtlMs = Math.min(expiresInSec, MAX_ACCESS_SEC) * 1000
  return { principalId: `${issuer}|${name}`, claims, scopes, accessTtlMs, refreshToken }
}

/** Whose fault it is, in a number. */
export function statusOf(error: unknown): 500 | 502 | 503 {
  if (!(error instanceof IdentityServiceError)) return 500
  return error.reason === 'unreachable' ? 503 : 502
}
