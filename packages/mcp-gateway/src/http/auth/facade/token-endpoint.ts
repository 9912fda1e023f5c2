import { readWebBody } from '../../bounded-body.ts'
import { isSameResource } from './authorize.ts'
import { grantOf, statusOf } from './callback.ts'
import type { FacadeParts } from './facade-parts.ts'
import type { Grant, IssuedTokens } from './grants.ts'
import { IdentityServiceError } from './identity-service.ts'
import { oauthAnswer, oauthError, singleValues } from './oauth-answer.ts'
import { fitsChallenge } from './pkce.ts'

const MAX_BODY_BYTES = 65_536
const FORM = /^application\/x-www-form-urlencoded\s*(?:;|$)/i

type Form = Readonly<Record<string, string | undefined>>

/** `POST /oauth/token` (RFC 6749 sections 4.1.3 and 6). */
export async function token(parts: FacadeParts, request: Request): Promise<Response> {
  if (!FORM.test(request.headers.get('content-type') ?? '')) return oauthError('invalid_request')
  const body = await readWebBody(request, MAX_BODY_BYTES)
  const form = body.ok ? singleValues(new URLSearchParams(body.text)) : undefined
  if (!form || !form['client_id']) return oauthError('invalid_request')
  const { grant_type: grantType, resource } = form
  if (resource !== undefined && !isSameResource(resource, parts.resource)) {
    return oauthError('invalid_target')
  }
  if (grantType === 'authorization_code') return byCode(parts, form, form['client_id'])
  if (grantType === 'refresh_token') return byRefresh(parts, form, form['client_id'])
  return oauthError(grantType ? 'unsupported_grant_type' : 'invalid_request')
}

async function byCode(parts: FacadeParts, form: Form, clientId: string): Promise<Response> {
  const { code, redirect_uri: redirectUri, code_verifier: verifier } = form
  if (!code) return oauthError('invalid_request')
  // Taken before it is checked: whoever guesses at a verifier has one guess.
  const grant = await parts.grants.takeCode(code)
  if (!grant || grant.clientId !== clientId || grant.redirectUri !== redirectUri) {
    return oauthError('invalid_grant')
  }
  if (!fitsChallenge(verifier, grant.codeChallenge)) return oauthError('invalid_grant')
  const issued = await parts.grants.issue(grant, { clientId, code })
  return issued ? tokenAnswer(grant, issued) : oauthError('invalid_grant')
}

async function byRefresh(parts: FacadeParts, form: Form, clientId: string): Promise<Response> {
  const { refresh_token: refreshToken } = form
  if (!refreshToken) return oauthError('invalid_request')
  const before = await parts.grants.takeRefresh(refreshToken)
  if (!before) return oauthError('invalid_grant')
  const { family } = before
  if (before.clientId !== clientId) {
    // Somebody else has the token.
    await parts.grants.revoke(family)
    return oauthError('invalid_grant')
  }
  let grant: Grant
  try {
    const identity = await parts.identity.refresh(before.refreshToken)
    // No more than there was, which may have been nothing.
    grant = grantOf(parts, identity, before.scopes.includes('*') ? 'all' : before.scopes)
  } catch (cause) {
    if (cause instanceof IdentityServiceError && cause.reason === 'refused') {
      return oauthError('invalid_grant')
    }
    // It may be as good as before when the service is back: nobody has to sign in again for an outage.
    await parts.grants.putBackRefresh(refreshToken, before)
    parts.onError(cause)
    return oauthError('server_error', statusOf(cause))
  }
  if (grant.principalId !== before.principalId) return oauthError('invalid_grant')
  await parts.clients.keep(clientId)
  const issued = await parts.grants.issue(grant, { clientId, family })
  return issued ? tokenAnswer(grant, issued) : oauthError('invalid_grant')
}

function tokenAnswer(grant: Grant, { accessToken, refreshToken }: IssuedTokens): Response {
  return oauthAnswer(200, {
    access_token: accessToken,
    token_type: 'Bearer',
    expires_in: Math.floor(grant.accessTtlMs / 1000),
    scope: grant.scopes.join(' '),
    ...(refreshToken !== undefined && { refresh_token: refreshToken }),
  })
}
