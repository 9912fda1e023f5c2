import { createHash } from 'node:crypto'

import { check, isRecord } from '@x/internal'
import type { Checks } from '@x/internal'
import { assertGatewayOptions, GatewayError } from '../../../errors.ts'
import { createGuardedFetch, type GuardedFetch } from '../../../internal/guarded-fetch.ts'
import { subnetOf } from '../../../internal/principal.ts'
import type { GatewayStore, Rate } from '../../../store/gateway-store.ts'
import { authenticateToken, type Verdict } from '../authenticate-token.ts'
import type { Authenticator, RequestSource } from '../authenticator.ts'
import { challengeResponse } from '../challenge.ts'
import { ProtectedResource } from '../protected-resource.ts'
import { publicDocument } from '../public-document.ts'
import { secureUrlFrom } from '../secure-url.ts'
import { authorize } from './authorize.ts'
import { callback } from './callback.ts'
import { Clients } from './clients.ts'
import type { FacadeParts } from './facade-parts.ts'
import { Grants } from './grants.ts'
import { type IdentityService, identityService } from './identity-service.ts'
import { oauthError, tooManyAttempts } from './oauth-answer.ts'
import { register } from './registration.ts'
import { token } from './token-endpoint.ts'

export interface FacadeAuthOptions {
  /** The store of the gateway: another process must find what this one began. */
  readonly store: Pick<GatewayStore, 'values' | 'rates'>
  /** The MCP endpoint as clients see it. Its origin is the issuer, with all endpoints under `/oauth`. */
  readonly resource: string
  /** Signs people in. One of this and `upstreamUrl`. */
  readonly identity?: IdentityService | undefined
  /** Where the identity service of Solace Agent Mesh is. */
  readonly upstreamUrl?: string | undefined
  /** Of that service. @default 'azure' */
  readonly provider?: string | undefined
  /** Of one request to it. @default 10_000 */
  readonly upstreamTimeoutMs?: number | undefined
  /** Where codes may be sent, to the letter, beside servers on the user's own machine. @default none */
  readonly redirectUris?: readonly string[] | undefined
  /** How long somebody may take to sign in. @default 300_000 */
  readonly stateTtlMs?: number | undefined
  /** How long a code waits for its client. @default 300_000 */
  readonly codeTtlMs?: number | undefined
  /** How long access can be renewed. @default 30 days */
  readonly refreshTtlMs?: number | undefined
  /** How long a client is remembered after somebody last signed in by it; before that, for a day. @default 90 days */
  readonly registrationTtlMs?: number | undefined
  /** Only S256 there is; `false` is refused. @default true */
  readonly requirePkce?: boolean | undefined
  /** Claim that names the caller; with the issuer it is the principal's id. @default 'sub' */
  readonly principalClaim?: string | undefined
  /** What who signed in may do, of which a client may ask for a part. @default everything: whoever can sign in may call */
  readonly scopes?:
    | readonly string[]
    | ((claims: Readonly<Record<string, unknown>>) => readonly string[])
    | undefined
  /** Named in the documents. @default none */
  readonly scopesSupported?: readonly string[] | undefined
  /** Told what went wrong behind a terse answer. @default nobody */
  readonly onError?: ((error: unknown) => void) | undefined
  /** For documents of clients. @default createGuardedFetch() */
  readonly guardedFetch?: GuardedFetch | undefined
  /** For the identity service. @default globalThis.fetch */
  readonly fetch?: typeof globalThis.fetch | undefined
  /** Milliseconds since 1970. @default Date.now */
  readonly now?: (() => number) | undefined
}

const optionChecks: Checks<FacadeAuthOptions> = {
  store: check.required({
    takes: 'the store of the gateway',
    accepts: (value) => isRecord(value) && isRecord(value['values']) && isRecord(value['rates']),
  }),
  resource: check.required(check.string),
  identity: check.record,
  upstreamUrl: check.string,
  provider: check.text,
  upstreamTimeoutMs: check.number(1),
  redirectUris: check.listOf(check.string),
  stateTtlMs: check.number(),
  codeTtlMs: check.number(),
  refreshTtlMs: check.number(),
  registrationTtlMs: check.number(),
  requirePkce: check.flag,
  principalClaim: check.text,
  scopes: check.or(check.func, check.listOf(check.text)),
  scopesSupported: check.listOf(check.text),
  onError: check.func,
  guardedFetch: check.func,
  fetch: check.func,
  now: check.func,
}

const AS_METADATA = '/.well-known/oauth-authorization-server'

const DAY_MS = 86_400_000

/** What one address may do in a minute; opaque tokens cannot be guessed, but stores can be filled. */
const RATES: Readonly<Record<string, Rate>> = {
  register: { perMinute: 10 },
  authorize: { perMinute: 60 },
  callback: { perMinute: 60 },
  token: { perMinute: 120 },
}

/** And all addresses together, for what stays. */
const ALL_REGISTRATIONS: Rate = { perMinute: 120 }

/**
 * An authorization server of the gateway's own, in front of an identity service that does not speak OAuth as MCP
 * needs it. Tokens are the gateway's: those of the identity service never leave it, and its own are good for nothing
 * else.
 *
 * @throws GatewayError `CONFIG`
 */
export function facadeAuth(options: FacadeAuthOptions): Authenticator {
  assertGatewayOptions('facadeAuth()', options, optionChecks)
  const parts = partsFrom(options)
  const { issuer, resource } = parts
  const { scopesSupported = [] } = options
  const metadata = new ProtectedResource({
    resource,
    authorizationServers: [issuer],
    scopesSupported,
  })
  const extras = { resourceMetadata: metadata.metadataUrl(resource) }
  const endpoints = endpointsOf(parts)
  const document = documentOf(parts, scopesSupported)

  const verify = async (secret: string): Promise<Verdict> => {
    const access = await parts.grants.access(secret)
    if (!access) return 'refused'
    const { principalId, scopes, claims } = access
    return { id: principalId, scopes, claims, isAnonymous: false }
  }
  const handle = async (
    request: Request,
    from: RequestSource = {},
  ): Promise<Response | undefined> => {
    const { pathname } = new URL(request.url)
    if (pathname === AS_METADATA) return publicDocument(request, document)
    const endpoint = endpoints.get(pathname)
    if (!endpoint) return metadata.handle(request)
    if (request.method !== endpoint.method) {
      return new Response(null, { status: 405, headers: { allow: endpoint.method } })
    }
    try {
      const waitMs = await waitOf(parts, endpoint.name, from)
      return waitMs > 0 ? tooManyAttempts(waitMs) : await endpoint.answer(request)
    } catch (error) {
      parts.onError(error)
      const isAway = GatewayError.is(error) && error.code === 'UNAVAILABLE'
      return oauthError('server_error', isAway ? 503 : 500)
    }
  }
  return {
    authenticate: (request) => authenticateToken(request, verify, extras),
    paths: [AS_METADATA, ...endpoints.keys(), ...metadata.paths],
    handle,
    refuseScopes: (_request, scopes) =>
      challengeResponse({ error: 'insufficient_scope', scopes, ...extras }),
  }
}

/** What clients find the endpoints by (RFC 8414). */
function documentOf({ issuer }: FacadeParts, scopesSupported: readonly string[]): object {
  return {
    issuer,
    authorization_endpoint: `${issuer}/oauth/authorize`,
    token_endpoint: `${issuer}/oauth/token`,
    registration_endpoint: `${issuer}/oauth/register`,
    response_types_supported: ['code'],
    response_modes_supported: ['query'],
    grant_types_supported: ['authorization_code', 'refresh_token'],
    token_endpoint_auth_methods_supported: ['none'],
    code_challenge_methods_supported: ['S256'],
    authorization_response_iss_parameter_supported: true,
    client_id_metadata_document_supported: true,
    ...(scopesSupported.length > 0 && { scopes_supported: scopesSupported }),
  }
}

interface Endpoint {
  readonly name: string
  readonly method: 'GET' | 'POST'
  answer(request: Request): Response | Promise<Response>
}

function endpointsOf(parts: FacadeParts): ReadonlyMap<string, Endpoint> {
  const endpoints: readonly (readonly [string, Endpoint])[] = [
    [
      '/oauth/register',
      { name: 'register', method: 'POST', answer: (request) => register(parts, request) },
    ],
    [
      '/oauth/authorize',
      { name: 'authorize', method: 'GET', answer: (request) => authorize(parts, request) },
    ],
    [
      '/oauth/callback',
      { name: 'callback', method: 'GET', answer: (request) => callback(parts, request) },
    ],
    ['/oauth/token', { name: 'token', method: 'POST', answer: (request) => token(parts, request) }],
  ]
  return new Map(endpoints)
}

async function waitOf(
  { store }: FacadeParts,
  name: string,
  { address }: RequestSource,
): Promise<number> {
  const rate = RATES[name]
  if (rate === undefined) return 0
  if (address !== undefined) {
    const waitMs = await store.rates.take(`oauth:${name}:${digest(subnetOf(address))}`, rate)
    if (waitMs > 0) return waitMs
  }
  return name === 'register' ? store.rates.take('oauth:register', ALL_REGISTRATIONS) : 0
}

function partsFrom(options: FacadeAuthOptions): FacadeParts {
  const { store, redirectUris = [], principalClaim = 'sub', scopes = ['*'] } = options
  const { stateTtlMs = 300_000, codeTtlMs = 300_000, refreshTtlMs = 30 * DAY_MS } = options
  const { registrationTtlMs = 90 * DAY_MS, onError = () => undefined, now = Date.now } = options
  const { guardedFetch = createGuardedFetch(), requirePkce = true } = options
  if (!requirePkce) {
    const message = 'Without PKCE a stolen code is as good as a token: requirePkce cannot be false'
    throw new GatewayError('CONFIG', message, { path: 'auth.facade.requirePkce' })
  }
  const resource = secureUrlFrom(options.resource, 'auth.resource').href
  const issuer = new URL(resource).origin
  const { values } = store
  return {
    issuer,
    resource,
    callback: `${issuer}/oauth/callback`,
    identity: identityFrom(options),
    clients: new Clients({ values, guardedFetch, redirectUris, registrationTtlMs }),
    grants: new Grants(values, { stateTtlMs, codeTtlMs, refreshTtlMs, now }),
    store,
    principalClaim,
    scopesOf: typeof scopes === 'function' ? scopes : () => scopes,
    onError,
  }
}

function identityFrom(options: FacadeAuthOptions): IdentityService {
  const { identity, upstreamUrl, provider, upstreamTimeoutMs: timeoutMs, fetch } = options
  if (identity) return identity
  if (upstreamUrl !== undefined) return identityService({ upstreamUrl, provider, timeoutMs, fetch })
  throw new GatewayError('CONFIG', 'facadeAuth() needs an identity service: set upstreamUrl', {
    path: 'auth.facade.upstreamUrl',
  })
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('base64url')
}
