import { check } from '@x/internal'
import type { Checks } from '@x/internal'
import { decodeJwt } from 'jose'

import { assertGatewayOptions, GatewayError } from '../../errors.ts'
import { authenticateToken, RETRY_AFTER_SEC, type Verdict } from './authenticate-token.ts'
import type { Authenticator } from './authenticator.ts'
import { cannotVerify, challengeResponse } from './challenge.ts'
import { claimedScopes } from './claimed-scopes.ts'
import { issuerChecks, JwtIssuer, type JwtIssuerOptions } from './jwt-issuer.ts'
import { ProtectedResource } from './protected-resource.ts'
import { publicDocument } from './public-document.ts'
import { secureUrlFrom } from './secure-url.ts'
import { VerifiedTokens } from './verified-tokens.ts'

export interface JwtAuthOptions {
  readonly issuers: readonly JwtIssuerOptions[]
  /** Claim that names the caller; with its issuer it is the principal's id. @default 'sub' */
  readonly principalClaim?: string | undefined
  /** Claim that holds scopes, as words or as a list. @default 'scope', else 'scp' */
  readonly scopesClaim?: string | undefined
  /** The MCP endpoint as clients see it, for the RFC 9728 document. @default what a request was addressed to */
  readonly resource?: string | undefined
  /** Named in the RFC 9728 document. @default none */
  readonly scopesSupported?: readonly string[] | undefined
  /** For people, in the same document. */
  readonly resourceName?: string | undefined
  /** How long a token that was found good is not checked again, at most until it expires; 0: each time. @default 30_000 */
  readonly rememberMs?: number | undefined
  /** Of one request to an issuer. @default 5000 */
  readonly timeoutMs?: number | undefined
  /** After keys were read, how long a token with an unknown key does not make them be read again. @default 30_000 */
  readonly keyCooldownMs?: number | undefined
  /** @default globalThis.fetch */
  readonly fetch?: typeof globalThis.fetch | undefined
  /** Milliseconds since 1970. @default Date.now */
  readonly now?: (() => number) | undefined
}

const optionChecks: Checks<JwtAuthOptions> = {
  issuers: check.required(check.listOf(check.section(issuerChecks))),
  principalClaim: check.text,
  scopesClaim: check.text,
  resource: check.string,
  scopesSupported: check.listOf(check.text),
  resourceName: check.text,
  rememberMs: check.number(),
  timeoutMs: check.number(1),
  keyCooldownMs: check.number(),
  fetch: check.func,
  now: check.func,
}

const AS_METADATA = '/.well-known/oauth-authorization-server'

/**
 * Callers with JWTs of issuers that are trusted: signature, `iss`, `aud`, `exp` and `nbf` are checked. An issuer that
 * cannot be reached is 503, not 401. Says where tokens are to be had (RFC 9728).
 *
 * @throws GatewayError `CONFIG`
 */
export function jwtAuth(options: JwtAuthOptions): Authenticator {
  assertGatewayOptions('jwtAuth()', options, optionChecks)
  const {
    issuers,
    rememberMs = 30_000,
    timeoutMs = 5000,
    keyCooldownMs = 30_000,
    now = Date.now,
  } = options
  const { fetch = globalThis.fetch, resource, scopesSupported, resourceName } = options
  if (issuers.length === 0) {
    throw new GatewayError('CONFIG', 'jwtAuth() needs an issuer: name one in `issuers`', {
      path: 'auth.issuers',
    })
  }
  if (resource !== undefined) secureUrlFrom(resource, 'auth.resource')
  const edges = { fetch, now, timeoutMs, keyCooldownMs }
  const byIssuer = new Map(issuers.map((each) => [each.issuer, new JwtIssuer(each, edges)]))
  const remembered = new VerifiedTokens(rememberMs)
  const authorizationServers = [...byIssuer.keys()]
  const metadata = new ProtectedResource({
    resource,
    authorizationServers,
    scopesSupported,
    resourceName,
  })

  const verify = async (token: string): Promise<Verdict> => {
    const known = remembered.get(token, now())
    if (known) return known
    const issuer = byIssuer.get(issuerOf(token) ?? '')
    if (issuer === undefined) return 'refused'
    const claims = await issuer.verify(token)
    if (typeof claims === 'string') return claims
    const { principalClaim = 'sub', scopesClaim } = options
    const name = claims[principalClaim]
    if (typeof name !== 'string' || name === '') return 'refused'
    const principal = {
      id: `${issuer.issuer}|${name}`,
      scopes: claimedScopes(claims, scopesClaim),
      isAnonymous: false,
      claims,
    }
    remembered.set(token, principal, { now: now(), expiresAt: (claims.exp ?? 0) * 1000 })
    return principal
  }

  return {
    authenticate: (request) =>
      authenticateToken(request, verify, { resourceMetadata: metadata.metadataUrl(request.url) }),
    paths: [...metadata.paths, AS_METADATA],
    handle: async (request) => {
      const { pathname } = new URL(request.url)
      return pathname === AS_METADATA ? issuerDocument(request, byIssuer) : metadata.handle(request)
    },
    refuseScopes: (request, scopes) =>
      challengeResponse({
        error: 'insufficient_scope',
        scopes,
        resourceMetadata: metadata.metadataUrl(request.url),
      }),
  }
}

/**
 * Where the first issuer signs people in, for clients of 2025-03-26: they look for it where the gateway is, and know
 * nothing of protected resources yet.
 */
async function issuerDocument(
  request: Request,
  issuers: ReadonlyMap<string, JwtIssuer>,
): Promise<Response> {
  const [first] = issuers.values()
  const document = await first?.metadata.read().catch(() => undefined)
  return document ? publicDocument(request, document) : cannotVerify(RETRY_AFTER_SEC)
}

/** What a token says of itself, to find the keys by; nothing of it is believed yet. */
function issuerOf(token: string): string | undefined {
  try {
    return decodeJwt(token).iss
  } catch {
    return undefined
  }
}
