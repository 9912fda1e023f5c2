import { createHash, timingSafeEqual } from 'node:crypto'
import { readWebBody, valueFromJson } from '@x/mcp-gateway/adapter'
import { z } from 'zod'
import type { BrowserCookies } from './browser-cookies.ts'
import type { Clients } from './clients.ts'
import type { Grant, Grants, IssuedTokens, RefreshGrant, TokenBody } from './grants.ts'
import { IdentityServiceError, type Identity, type IdentityService } from './identity-service.ts'

/** Context of the endpoints. */
export interface Facade {
  /** Issuer of the tokens, also the `iss` of answers (RFC 9207). */
  readonly issuer: string
  /** URL of the MCP endpoint, for which all tokens are valid. */
  readonly resource: string
  /** URL to which the identity service sends the browser back. */
  readonly callback: string
  readonly identity: IdentityService
  readonly clients: Clients
  readonly grants: Grants
  readonly cookies: BrowserCookies
  readonly principalClaim: string
  /** Scopes of a user with these claims. */
  readonly scopesOf: (claims: Readonly<Record<string, unknown>>) => readonly string[]
  /** Called with the details of errors. Clients do not see them. */
  readonly onError: (error: unknown) => void
}

/** Longest body of a request. */
export const MAX_BODY_BYTES = 65_536

/** Longest life of an access token, and its life if the identity service names none. Seconds. */
const MAX_ACCESS_SEC = 3600

/** Value of `Retry-After` while the store or the identity service is down. Seconds. */
const RETRY_AFTER_SEC = '5'

export const FORM: RegExp = /^application\/x-www-form-urlencoded\s*(?:;|$)/i
const VERIFIER = /^[A-Za-z0-9\-._~]{43,128}$/

const registrationShape = z.object({
  redirect_uris: z.array(z.string()),
  client_name: z.string().optional().catch(undefined),
  grant_types: z.array(z.string()).default(['authorization_code']),
  response_types: z.array(z.string()).default(['code']),
})

/** `POST /oauth/register` (RFC 7591). Clients have no secret: PKCE binds their codes to them. */
export async function register({ clients }: Facade, request: Request): Promise<Response> {
  const body = await readWebBody(request, MAX_BODY_BYTES)
  const read = registrationShape.safeParse(body.ok ? valueFromJson(body.text) : undefined)
  if (!read.success) return oauthError('invalid_client_metadata')
  const { redirect_uris, client_name, grant_types, response_types } = read.data
  if (!grant_types.includes('authorization_code') || !response_types.includes('code')) {
    return oauthError('invalid_client_metadata')
  }
  const client = await clients.register(redirect_uris, client_name)
  if (client === undefined) return oauthError('invalid_redirect_uri')
  return oauthAnswer(201, {
    client_id: client.id,
    redirect_uris,
    ...(client.name !== undefined && { client_name: client.name }),
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
  })
}

/** `POST /oauth/token` (RFC 6749 sections 4.1.3 and 6). */
export async function token(facade: Facade, request: Request): Promise<Response> {
  if (!FORM.test(request.headers.get('content-type') ?? '')) return oauthError('invalid_request')
  const body = await readWebBody(request, MAX_BODY_BYTES)
  const form = body.ok ? singleValues(new URLSearchParams(body.text)) : undefined
  if (!form || !form['client_id']) return oauthError('invalid_request')
  const { grant_type: grantType, resource } = form
  if (!isForResource(resource, facade)) return oauthError('invalid_target')
  if (grantType === 'authorization_code') return exchangeCode(facade, form, form['client_id'])
  if (grantType === 'refresh_token') return refresh(facade, form, form['client_id'])
  return oauthError(grantType ? 'unsupported_grant_type' : 'invalid_request')
}

type Form = Readonly<Record<string, string | undefined>>

async function exchangeCode(facade: Facade, form: Form, clientId: string): Promise<Response> {
  const { code, redirect_uri: redirectUri, code_verifier: verifier } = form
  if (!code) return oauthError('invalid_request')
  // Taken before it is checked: an attacker has one attempt to guess the verifier.
  const grant = await facade.grants.takeCode(code)
  if (!grant || grant.clientId !== clientId || grant.redirectUri !== redirectUri) {
    return oauthError('invalid_grant')
  }
  if (!matchesChallenge(verifier, grant.codeChallenge)) return oauthError('invalid_grant')
  const issued = await facade.grants.issue(grant, { clientId, code })
  return issued ? oauthAnswer(200, tokenBody(grant, issued)) : oauthError('invalid_grant')
}

async function refresh(facade: Facade, form: Form, clientId: string): Promise<Response> {
  const { refresh_token: refreshToken } = form
  if (!refreshToken) return oauthError('invalid_request')
  const { grants } = facade
  const use = await grants.useRefresh(refreshToken, clientId)
  if (!use) return oauthError('invalid_grant')
  if (use.kind === 'repeated') return oauthAnswer(200, use.answer)
  if (use.kind === 'pending') return oauthError('temporarily_unavailable', 503)
  const { grant: before } = use
  let body: TokenBody | undefined
  try {
    body = await renewed(facade, before)
  } catch (cause) {
    // The token stays valid during an outage of the identity service, so that users need not sign in again.
    await grants.putBackRefresh(refreshToken)
    if (!(cause instanceof IdentityServiceError)) throw cause
    facade.onError(cause)
    return oauthError('server_error', statusFor(cause))
  }
  await grants.answerRefresh(refreshToken, before, body)
  return body ? oauthAnswer(200, body) : oauthError('invalid_grant')
}

/**
 * Asks the identity service about a user again, and issues tokens. `undefined`: the user may not go on.
 *
 * @throws IdentityServiceError if the service cannot tell now; errors of the store
 */
async function renewed(facade: Facade, before: RefreshGrant): Promise<TokenBody | undefined> {
  const { family, clientId, principalId, scopes } = before
  let identity: Identity
  try {
    identity = await facade.identity.refresh(before.refreshToken)
  } catch (error) {
    if (error instanceof IdentityServiceError && error.reason === 'refused') return undefined
    throw error
  }
  // Never more scopes than before. An empty list stays empty.
  const grant = grantFor(facade, identity, scopes.includes('*') ? 'all' : scopes)
  if (grant.principalId !== principalId) return undefined
  await facade.clients.keep(clientId)
  const issued = await facade.grants.issue(grant, { clientId, family })
  return issued && tokenBody(grant, issued)
}

function tokenBody(grant: Grant, { accessToken, refreshToken }: IssuedTokens): TokenBody {
  return {
    access_token: accessToken,
    token_type: 'Bearer',
    expires_in: Math.floor(grant.accessTtlMs / 1000),
    scope: grant.scopes.join(' '),
    ...(refreshToken !== undefined && { refresh_token: refreshToken }),
  }
}

/**
 * The part of the requested scopes that the user has. `all`: every scope that the user has.
 *
 * @throws IdentityServiceError if the claims do not name the user
 */
export function grantFor(
  { issuer, principalClaim, scopesOf }: Facade,
  { claims, refreshToken, expiresInSec = MAX_ACCESS_SEC }: Identity,
  requested: readonly string[] | 'all',
): Grant {
  const name = claims[principalClaim]
  if (typeof name !== 'string' || name === '') {
    const message = `The identity service sent no claim "${principalClaim}". Set principalClaim to one that it sends`
    throw new IdentityServiceError('failed', message)
  }
  const allowed = scopesOf(claims)
  const isAllowed = (scope: string): boolean => allowed.includes(scope) || allowed.includes('*')
  const scopes = requested === 'all' ? allowed : requested.filter(isAllowed)
  const accessTtlMs = Math.min(expiresInSec, MAX_ACCESS_SEC) * 1000
  return { principalId: `${issuer}|${name}`, claims, scopes, accessTtlMs, refreshToken }
}

export function statusFor(error: unknown): 500 | 502 | 503 {
  if (!(error instanceof IdentityServiceError)) return 500
  return error.reason === 'unreachable' ? 503 : 502
}

/** Checks that a token is requested for this gateway (RFC 8707). Some clients add or remove a slash at the end. */
export function isForResource(requested: string | undefined, { resource }: Facade): boolean {
  return requested === undefined || requested.replace(/\/$/, '') === resource.replace(/\/$/, '')
}

/** Compares the S256 challenge with the verifier (RFC 7636 section 4.6). */
function matchesChallenge(verifier: string | undefined, challenge: string): boolean {
  if (verifier === undefined || !VERIFIER.test(verifier)) return false
  const made = createHash('sha256').update(verifier).digest()
  const expected = Buffer.from(challenge, 'base64url')
  return expected.byteLength === made.byteLength && timingSafeEqual(made, expected)
}

/** Reason of a refusal (RFC 6749, RFC 7591, RFC 8707). Clients get nothing more than this. */
export type OAuthErrorName =
  | 'invalid_request'
  | 'invalid_client'
  | 'invalid_grant'
  | 'invalid_target'
  | 'invalid_scope'
  | 'invalid_redirect_uri'
  | 'invalid_client_metadata'
  | 'unsupported_grant_type'
  | 'unsupported_response_type'
  | 'access_denied'
  | 'server_error'
  | 'temporarily_unavailable'

export function oauthError(error: OAuthErrorName, status = 400): Response {
  return oauthAnswer(status, { error }, status === 503 ? { 'retry-after': RETRY_AFTER_SEC } : {})
}

export function tooManyAttempts(waitMs: number): Response {
  const headers = { 'retry-after': `${Math.ceil(waitMs / 1000)}` }
  return oauthAnswer(429, { error: 'temporarily_unavailable' }, headers)
}

function oauthAnswer(
  status: number,
  body: object,
  headers: Readonly<Record<string, string>> = {},
): Response {
  return Response.json(body, { status, headers: { ...headers, 'cache-control': 'no-store' } })
}

/** Values by name, without empty ones. `undefined` if a name occurs twice (RFC 6749 section 3.1). */
export function singleValues(all: URLSearchParams): Form | undefined {
  const values = new Map<string, string>()
  for (const [name, value] of all) {
    if (values.has(name)) return undefined
    if (value !== '') values.set(name, value)
  }
  return Object.fromEntries(values)
}
