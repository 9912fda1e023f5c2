import { check, isRecord, type Checks } from '@x/internal'
import { decodeJwt, errors, jwtVerify } from 'jose'
import type { JWTPayload, JWTVerifyGetKey, JWTVerifyOptions } from 'jose'
import { GatewayError, assertGatewayOptions, type Complete } from '../../errors.ts'
import { readBounded } from '../../internal/guarded-fetch.ts'
import {
  ProtectedResource,
  authenticateToken,
  challengeResponse,
  secureUrlFrom,
} from './authenticator.ts'
import type { Authenticator, Verdict } from './authenticator.ts'
import { ISSUER_TIMEOUT_MS, IssuerKeys, PAUSE_MS } from './issuer-keys.ts'

/** An issuer whose tokens are accepted, and how they are checked. */
export interface JwtIssuerOptions {
  /** Value of `iss` in its tokens. */
  readonly issuer: string
  /** URL of its keys. @default from its metadata (RFC 8414, OpenID Connect discovery) */
  readonly jwksUrl?: string | undefined
  /** Accepted values of `aud`. Usually the URL of the MCP endpoint (RFC 8707). */
  readonly audience: string | readonly string[]
}

// JwtIssuer checks the URLs and the audience more closely.
const issuerChecks: Checks<JwtIssuerOptions> = {
  issuer: check.required(check.string),
  jwksUrl: check.string,
  audience: check.required(check.or(check.string, check.listOf(check.string))),
}

export interface JwtAuthOptions {
  readonly issuers: readonly JwtIssuerOptions[]
  /** Claim with the name of the caller. The id of the principal is `<issuer>|<name>`. @default 'sub' */
  readonly principalClaim?: string | undefined
  /** Claim with the scopes, as words or as a list. @default 'scope', else 'scp' */
  readonly scopesClaim?: string | undefined
  /** URL of the MCP endpoint as clients see it, for the RFC 9728 document. @default from `http.publicUrl`, else the URL of the request */
  readonly resource?: string | undefined
  /** Scopes that the RFC 9728 document names. @default none */
  readonly scopesSupported?: readonly string[] | undefined
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
  fetch: check.func,
  now: check.func,
}

/**
 * Authenticates callers with JWTs of trusted issuers. Checks signature, `iss`, `aud`, `exp` and `nbf`. If an issuer
 * cannot be reached, the response is 503, not 401. Serves the metadata of the resource (RFC 9728).
 *
 * @throws GatewayError `CONFIG`
 * @example
 * ```ts
 * import { createGateway, jwtAuth } from '@x/mcp-gateway'
 *
 * const resource = 'https://agents.example/mcp' // as clients see it
 * const issuers = [{ issuer: 'https://login.example', audience: resource }]
 * const gateway = createGateway({ auth: jwtAuth({ issuers, resource }) })
 * ```
 */
export function jwtAuth(options: JwtAuthOptions): Authenticator {
  assertGatewayOptions('jwtAuth()', options, optionChecks)
  const { fetch = globalThis.fetch, now = Date.now } = options
  const { issuers, resource, scopesSupported = [] } = options
  const { principalClaim = 'sub', scopesClaim } = options
  if (issuers.length === 0) {
    throw new GatewayError('CONFIG', 'jwtAuth() needs an issuer: name one in `issuers`', {
      path: 'auth.issuers',
    })
  }
  if (resource !== undefined) secureUrlFrom(resource, 'auth.resource')
  const context = { fetch, now }
  const byIssuer = new Map(issuers.map((each) => [each.issuer, new JwtIssuer(each, context)]))
  const metadata = new ProtectedResource({
    resource,
    authorizationServers: [...byIssuer.keys()],
    scopesSupported,
  })

  const verify = async (token: string): Promise<Verdict> => {
    const issuer = byIssuer.get(issuerOf(token) ?? '')
    if (issuer === undefined) return 'refused'
    const claims = await issuer.verify(token)
    if (typeof claims === 'string') return claims
    const name = claims[principalClaim]
    if (typeof name !== 'string' || name === '') return 'refused'
    return {
      id: `${issuer.issuer}|${name}`,
      scopes: claimedScopes(claims, scopesClaim),
      isAnonymous: false,
      claims,
    }
  }

  return {
    authenticate: (request) =>
      authenticateToken(request, verify, { resourceMetadata: metadata.metadataUrl(request.url) }),
    paths: metadata.paths,
    handle: async (request, from) => metadata.handle(request, from?.endpoint),
    refuseScopes: (request, scopes) =>
      challengeResponse({
        error: 'insufficient_scope',
        scopes,
        resourceMetadata: metadata.metadataUrl(request.url),
      }),
  }
}

/** Issuer that an unverified token names, to find the keys. */
function issuerOf(token: string): string | undefined {
  try {
    return decodeJwt(token).iss
  } catch {
    return undefined
  }
}

type IssuerContext = Complete<Pick<JwtAuthOptions, 'fetch' | 'now'>>

/** Claims of a valid token. `unavailable`: the keys cannot be read now. */
type JwtVerdict = JWTPayload | 'refused' | 'unavailable'

/** Algorithms with public keys. With shared secrets, a verifier could also create tokens. */
const ALGORITHMS = ['RS', 'PS', 'ES']
  .flatMap((family) => ['256', '384', '512'].map((bits) => `${family}${bits}`))
  .concat('EdDSA', 'Ed25519')
/** Accepted difference of the clock of an issuer. */
const CLOCK_TOLERANCE_SEC = 30

const MAX_DOCUMENT_BYTES = 262_144

/** Metadata of an issuer. It names this issuer. */
type IssuerDocument = Readonly<Record<string, unknown>>

/** Checks tokens of one issuer. Reads the keys for the first token, and again when a token names an unknown key. */
class JwtIssuer {
  readonly issuer: string
  readonly #context: IssuerContext
  readonly #rules: JWTVerifyOptions
  #keys: Promise<JWTVerifyGetKey> | undefined
  /** Time at which keys that could not be read are read again. */
  #readAgainAt = Infinity

  /** @throws GatewayError `CONFIG` */
  constructor(options: JwtIssuerOptions, context: IssuerContext) {
    const { issuer, jwksUrl } = options
    const audience = [options.audience].flat()
    secureUrlFrom(issuer, 'auth.issuers.issuer')
    this.issuer = issuer
    this.#context = context
    if (audience.length === 0 || audience.includes('')) {
      throw configError(
        'audience',
        'needs an audience: tokens for others would be accepted without one',
      )
    }
    this.#rules = {
      issuer,
      audience,
      algorithms: ALGORITHMS,
      clockTolerance: CLOCK_TOLERANCE_SEC,
      requiredClaims: ['exp'],
    }
    if (jwksUrl !== undefined) {
      this.#keys = Promise.resolve(this.#keysAt(secureUrlFrom(jwksUrl, 'auth.issuers.jwksUrl')))
    }
  }

  /** Never throws. */
  async verify(token: string): Promise<JwtVerdict> {
    try {
      const currentDate = new Date(this.#context.now())
      const { payload } = await jwtVerify(token, await this.#currentKeys(), {
        ...this.#rules,
        currentDate,
      })
      return payload
    } catch (error) {
      return isAboutToken(error) ? 'refused' : 'unavailable'
    }
  }

  /**
   * Reads the metadata of RFC 8414, with the well-known part before the path, else of OpenID Connect discovery, with it
   * after the path.
   */
  async #readMetadata(): Promise<IssuerDocument> {
    const { origin, pathname } = new URL(this.issuer)
    const path = pathname.replace(/\/$/, '')
    const urls = [
      `${origin}/.well-known/oauth-authorization-server${path}`,
      `${origin}${path}/.well-known/openid-configuration`,
    ]
    const causes: unknown[] = []
    for (const url of urls) {
      try {
        return await this.#metadataAt(url)
      } catch (error) {
        causes.push(error)
      }
    }
    throw new AggregateError(causes, 'The metadata of the issuer cannot be read')
  }

  async #metadataAt(url: string): Promise<IssuerDocument> {
    const { fetch } = this.#context
    const response = await fetch(url, {
      headers: { accept: 'application/json' },
      redirect: 'error',
      signal: AbortSignal.timeout(ISSUER_TIMEOUT_MS),
    })
    if (!response.ok) {
      await response.body?.cancel()
      throw new Error(`The metadata request was answered with status ${response.status}`)
    }
    const body = await readBounded(response, MAX_DOCUMENT_BYTES)
    const document: unknown = JSON.parse(body.toString('utf8'))
    if (!isRecord(document) || document['issuer'] !== this.issuer) {
      throw new Error('The metadata names another issuer')
    }
    return document
  }

  /** Reads the keys once for all tokens that wait. @throws Error if the read fails, or failed a moment ago */
  #currentKeys(): Promise<JWTVerifyGetKey> {
    const { now } = this.#context
    if (this.#keys && now() < this.#readAgainAt) return this.#keys
    const reading = this.#readKeys()
    this.#keys = reading
    this.#readAgainAt = Infinity
    reading.catch(() => (this.#readAgainAt = now() + PAUSE_MS))
    return reading
  }

  async #readKeys(): Promise<JWTVerifyGetKey> {
    const { jwks_uri: url } = await this.#readMetadata()
    if (typeof url !== 'string') throw new Error('The metadata has no jwks_uri')
    return this.#keysAt(secureUrlFrom(url, 'jwks_uri'))
  }

  #keysAt(url: URL): JWTVerifyGetKey {
    return new IssuerKeys(url, this.#context).find
  }
}

/** Returns `true` for an error of the token, and `false` for an error of the issuer or of the connection to it. */
function isAboutToken(error: unknown): boolean {
  return (
    error instanceof errors.JWTExpired ||
    error instanceof errors.JWTClaimValidationFailed ||
    error instanceof errors.JWTInvalid ||
    error instanceof errors.JWSInvalid ||
    error instanceof errors.JWSSignatureVerificationFailed ||
    error instanceof errors.JOSEAlgNotAllowed ||
    error instanceof errors.JOSENotSupported ||
    error instanceof errors.JWKSNoMatchingKey ||
    error instanceof errors.JWKSMultipleMatchingKeys
  )
}

function configError(option: string, problem: string): GatewayError {
  return new GatewayError('CONFIG', `An issuer of jwtAuth() ${problem}`, {
    path: `auth.issuers.${option}`,
  })
}

/** Scopes of a token: words in a string (RFC 9068), or a list of strings (`scp`). Other values give none. */
function claimedScopes(
  claims: Readonly<Record<string, unknown>>,
  claim?: string,
): readonly string[] {
  const value = claim === undefined ? (claims['scope'] ?? claims['scp']) : claims[claim]
  if (typeof value === 'string') return value.split(' ').filter((scope) => scope !== '')
  if (!Array.isArray(value)) return []
  return value.filter((scope): scope is string => typeof scope === 'string' && scope !== '')
}
