import { isLoopback } from '@x/internal'
import { GatewayError } from '../../errors.ts'
import type { RefusedRequest } from '../../internal/observer.ts'
import type { Principal } from '../../internal/principal.ts'
import type { RequestHeaders } from '../../mcp/reply.ts'
import { wellKnownPaths } from '../public-url.ts'

/** Authenticates callers: `bearerAuth()`, `jwtAuth()`, or `oauthFacade()` of `@x/mcp-gateway-oauth`. Without one, every caller is anonymous. */
export interface Authenticator {
  /**
   * Returns the caller of a request, or the response that refuses it: 401 with `WWW-Authenticate`, or 503 if the
   * credential cannot be checked now. Never throws.
   */
  authenticate(request: AuthenticationRequest): Promise<Principal | Response>
  /** Paths that `handle` answers, with all below them. It reads the bodies of their requests itself. @default none */
  readonly paths?: readonly string[] | undefined
  /**
   * Those of `paths` that show pages with forms. `handle` checks the `Origin` of their requests itself: a form of a page
   * that sends no referrer has the origin `null`, which the gateway refuses everywhere else. @default none
   */
  readonly pages?: readonly string[] | undefined
  /** Serves metadata (RFC 9728) and endpoints of an authorization server. `undefined` for any other path. Never throws. */
  handle?(request: Request, from?: RequestSource): Promise<Response | undefined>
  /** Returns the response to a known caller that lacks scopes (RFC 6750 section 3.1). @default a challenge without metadata */
  refuseScopes?(request: AuthenticationRequest, scopes: readonly string[]): Response
}

export interface AuthenticationRequest {
  readonly method: string
  /** URL of the MCP endpoint as clients see it. */
  readonly url: string
  readonly headers: RequestHeaders
}

/** Context of a request, as far as the server knows it. */
export interface RequestSource {
  /** IP address, for rate limits. */
  readonly address?: string | undefined
  /** URL of the MCP endpoint as clients see it. `undefined` without `http.publicUrl`. */
  readonly endpoint?: string | undefined
}

/** Result of checking a token. `unavailable`: it cannot be checked now, and the client may try it again. */
export type Verdict = Principal | 'refused' | 'unavailable'

/** Parameters that all challenges of one authenticator have. */
export type ChallengeExtras = Pick<Challenge, 'scopes' | 'resourceMetadata'>

/** Longer tokens are refused without a check. Issued ones are much shorter. */
const MAX_TOKEN_LENGTH = 16_384

export const TOKEN: RegExp = /^[A-Za-z0-9\-._~+/]+=*$/

/** Value of `Retry-After` while tokens cannot be checked. Seconds. */
const RETRY_AFTER_SEC = 5

const MALFORMED = { error: 'invalid_request', description: 'Not a bearer token' } as const

/** One text for unknown, expired and foreign tokens: the difference would help only an attacker. */
const REFUSED = { error: 'invalid_token', description: 'The token is not accepted' } as const

/** Authenticates a request by its bearer token. Returns the response that refuses it otherwise. Never throws. */
export async function authenticateToken(
  request: AuthenticationRequest,
  verify: (token: string) => Verdict | Promise<Verdict>,
  extras: ChallengeExtras = {},
): Promise<Principal | Response> {
  const read = parseBearerToken(request.headers)
  if (read === 'none') return challengeResponse(extras)
  if (read === 'malformed') return challengeResponse({ ...extras, ...MALFORMED })
  let verdict: Verdict
  try {
    verdict = await verify(read.token)
  } catch {
    return cannotVerify()
  }
  if (verdict === 'unavailable') return cannotVerify()
  if (verdict === 'refused') return challengeResponse({ ...extras, ...REFUSED })
  return verdict
}

/** Reads the token of an `Authorization: Bearer` header (RFC 6750 section 2.1). `none`: the request has no such header. */
export function parseBearerToken(
  headers: Pick<RequestHeaders, 'get'>,
): { readonly token: string } | 'none' | 'malformed' {
  const header = headers.get('authorization')
  if (header === null) return 'none'
  const [scheme, token, ...rest] = header.trim().split(/ +/)
  if (scheme?.toLowerCase() !== 'bearer') return 'none'
  if (token === undefined || rest.length > 0) return 'malformed'
  if (token.length > MAX_TOKEN_LENGTH || !TOKEN.test(token)) return 'malformed'
  return { token }
}

/** Content of a `WWW-Authenticate: Bearer` header (RFC 6750 section 3, RFC 9728 section 5.1). */
export interface Challenge {
  /** Left out if the request had no credential. */
  readonly error?: 'invalid_request' | 'invalid_token' | 'insufficient_scope' | undefined
  /** For people. Must not describe the credential. */
  readonly description?: string | undefined
  /** All scopes that the request needs. */
  readonly scopes?: readonly string[] | undefined
  /** URL of the RFC 9728 document. */
  readonly resourceMetadata?: string | undefined
}

const STATUS = { invalid_request: 400, invalid_token: 401, insufficient_scope: 403 } as const

/** Returns the response that refuses a request and tells the client how to authenticate. */
export function challengeResponse(challenge: Challenge): Response {
  const { error, description, scopes = [], resourceMetadata } = challenge
  const parameters = [
    ['error', error],
    ['error_description', description],
    ['scope', scopes.length > 0 ? scopes.join(' ') : undefined],
    ['resource_metadata', resourceMetadata],
  ]
  const shown = parameters.flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}="${quotable(value)}"`],
  )
  const header = `Bearer ${shown.join(', ')}`.trimEnd()
  const body = {
    error: error ?? 'invalid_token',
    error_description: description ?? advice(challenge),
  }
  return Response.json(body, {
    status: error ? STATUS[error] : 401,
    headers: { 'www-authenticate': header, 'cache-control': 'no-store' },
  })
}

/** For people who read the body: SDK clients show it instead of the header. */
function advice({ error, scopes = [] }: Challenge): string | undefined {
  if (error === undefined) {
    return 'The request has no token: send it in the header Authorization: Bearer <token>'
  }
  if (error !== 'insufficient_scope' || scopes.length === 0) return undefined
  return `The token lacks a scope. The call needs: ${scopes.join(', ')}`
}

/** Returns 503 for a credential that cannot be checked now. After a 401, clients would drop a valid token. */
function cannotVerify(): Response {
  const headers = { 'retry-after': `${RETRY_AFTER_SEC}`, 'cache-control': 'no-store' }
  return Response.json({ error: 'temporarily_unavailable' }, { status: 503, headers })
}

/** Removes characters that would end the quoted string or the header. */
function quotable(text: string): string {
  return text.replaceAll(/[^\x20-\x7e]|["\\]/g, '')
}

const WELL_KNOWN = '/.well-known/oauth-protected-resource'

export interface ProtectedResourceOptions {
  /** URL of the MCP endpoint as clients see it. `undefined`: the URL of the request. */
  readonly resource: string | undefined
  /** Issuers whose tokens are accepted. */
  readonly authorizationServers: readonly string[]
  readonly scopesSupported: readonly string[]
}

/** Metadata document that tells clients where to get a token for this gateway (RFC 9728). */
export class ProtectedResource {
  readonly #options: ProtectedResourceOptions

  constructor(options: ProtectedResourceOptions) {
    this.#options = options
  }

  /** URL of the document of an endpoint: the well-known part goes between host and path (RFC 9728 section 3.1). */
  metadataUrl(endpoint: string): string {
    const { origin, pathname } = new URL(this.#options.resource ?? endpoint)
    return `${origin}${WELL_KNOWN}${pathname === '/' ? '' : pathname}`
  }

  /** Paths of the documents that are known before a request. */
  get paths(): readonly string[] {
    const { resource } = this.#options
    return resource === undefined ? [WELL_KNOWN] : pathsFor(resource)
  }

  /**
   * Returns the document, or the response to a preflight request. `undefined` for any other path.
   *
   * @param endpoint as in `RequestSource`
   */
  handle(request: Request, endpoint?: string): Response | undefined {
    const resource = this.#resourceAt(new URL(request.url), endpoint)
    if (resource === undefined) return undefined
    const { authorizationServers, scopesSupported } = this.#options
    return publicDocument(request, {
      resource,
      authorization_servers: authorizationServers,
      bearer_methods_supported: ['header'],
      ...(scopesSupported.length > 0 && { scopes_supported: scopesSupported }),
    })
  }

  /** URL of the resource that the document at this URL describes. */
  #resourceAt({ origin, pathname }: URL, endpoint: string | undefined): string | undefined {
    const resource = this.#options.resource ?? endpoint
    if (resource !== undefined) return pathsFor(resource).includes(pathname) ? resource : undefined
    if (pathname !== WELL_KNOWN && !pathname.startsWith(`${WELL_KNOWN}/`)) return undefined
    return `${origin}${pathname.slice(WELL_KNOWN.length)}`
  }
}

/** Paths of the document of a resource. Some clients remove a slash at the end of a path. */
function pathsFor(resource: string): readonly string[] {
  const { pathname } = new URL(resource)
  const exact = `${WELL_KNOWN}${pathname === '/' ? '' : pathname}`
  return [...new Set([...wellKnownPaths(WELL_KNOWN, pathname), exact])]
}

/** Serves a public JSON document, also to pages of other origins: they send no credential with the request. */
export function publicDocument(request: Request, document: object): Response {
  const headers = {
    'access-control-allow-origin': '*',
    'access-control-allow-methods': 'GET',
    'access-control-allow-headers': '*',
    'cache-control': 'public, max-age=300',
  }
  if (request.method === 'OPTIONS') return new Response(null, { status: 204, headers })
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    return new Response(null, { status: 405, headers: { ...headers, allow: 'GET' } })
  }
  return Response.json(document, { headers })
}

/**
 * Parses a URL that credentials depend on. It must use https, or http on this machine.
 *
 * @param path of the option, for the error
 * @throws GatewayError `CONFIG`
 */
export function secureUrlFrom(text: string, path: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined) throw new GatewayError('CONFIG', `${path} is not a URL`, { path })
  const isLocal = url.protocol === 'http:' && isLoopback(url.hostname)
  if (url.protocol !== 'https:' && !isLocal) {
    const message = `${path} must begin with https://, except on this machine`
    throw new GatewayError('CONFIG', message, { path })
  }
  if (url.username !== '' || url.password !== '' || url.hash !== '') {
    const message = `${path} has a user name or a fragment: remove it`
    throw new GatewayError('CONFIG', message, { path })
  }
  return url
}

/** Statuses that depend on the endpoint, not on the caller. */
const NOT_OF_THE_CALLER = new Set([404, 405])

/**
 * Reason for which an endpoint of an authenticator refused a request. `undefined`: it did not. Errors are responses,
 * or redirects with an `error` once the redirect URI of the client is known (RFC 6749 section 4.1.2.1).
 */
export function signInRefusal(response: Response): RefusedRequest['reason'] | undefined {
  const { headers, status } = response
  if (status === 429) return 'too_many'
  if (status >= 500) return 'unavailable'
  if (status >= 400) return NOT_OF_THE_CALLER.has(status) ? undefined : 'sign_in'
  const target = headers.get('location') ?? ''
  if (!URL.canParse(target)) return undefined
  return new URL(target).searchParams.has('error') ? 'sign_in' : undefined
}
