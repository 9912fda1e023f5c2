import { check } from '@x/internal'
import type { Checks } from '@x/internal'
import {
  createRemoteJWKSet,
  customFetch,
  errors,
  jwtVerify,
  type JWTPayload,
  type JWTVerifyGetKey,
} from 'jose'

import { GatewayError } from '../../errors.ts'
import { readBounded } from '../../internal/guarded-fetch.ts'
import { IssuerMetadata, jwksUrlFrom } from './issuer-metadata.ts'
import { secureUrlFrom } from './secure-url.ts'

/** Whose tokens are accepted, and how they are checked. */
export interface JwtIssuerOptions {
  /** Exactly as tokens say it in `iss`. */
  readonly issuer: string
  /** Where its keys are. @default looked up in its metadata (RFC 8414, OpenID Connect discovery) */
  readonly jwksUrl?: string | undefined
  /** One of which a token must name in `aud`: usually the URL of the MCP endpoint (RFC 8707). */
  readonly audience: string | readonly string[]
  /** Signatures that are accepted; never taken from the token. @default ['RS256', 'PS256', 'ES256', 'EdDSA'] */
  readonly algorithms?: readonly string[] | undefined
  /** How far its clock may be off. @default 30 */
  readonly clockToleranceSec?: number | undefined
}

// The URLs, the audience and the algorithms are also checked by JwtIssuer, with errors of their own.
export const issuerChecks: Checks<JwtIssuerOptions> = {
  issuer: check.required(check.string),
  jwksUrl: check.string,
  audience: check.required(check.or(check.string, check.listOf(check.string))),
  algorithms: check.listOf(check.string),
  clockToleranceSec: check.number(),
}

export interface JwtIssuerEdges {
  readonly fetch: typeof globalThis.fetch
  /** Milliseconds since 1970. */
  readonly now: () => number
  /** Of one request for keys or metadata. */
  readonly timeoutMs: number
  /** After keys were read, how long an unknown key is refused without asking for them again. */
  readonly keyCooldownMs: number
}

/** Claims of a token that this issuer made. `unavailable`: its keys cannot be had now. */
export type JwtVerdict = JWTPayload | 'refused' | 'unavailable'

const DEFAULT_ALGORITHMS = ['RS256', 'PS256', 'ES256', 'EdDSA']

/** No shared secrets, no tokens without a signature: whoever could check those could also make them. */
const ASYMMETRIC = /^(?:RS|PS|ES)(?:256|384|512)$|^EdDSA$|^Ed25519$/

const MAX_KEYS_BYTES = 1_048_576

/** How long nobody asks again for keys that could not be had: any token that names the issuer would ask. */
const PAUSE_MS = 5000

/** Checks tokens of one issuer. Keys are read when the first token comes, and again when one names an unknown key. */
export class JwtIssuer {
  readonly issuer: string
  readonly metadata: IssuerMetadata
  readonly #audience: string[]
  readonly #algorithms: string[]
  readonly #clockToleranceSec: number
  readonly #edges: JwtIssuerEdges
  #keys: Promise<JWTVerifyGetKey> | undefined

  /** @throws GatewayError `CONFIG` */
  constructor(options: JwtIssuerOptions, edges: JwtIssuerEdges) {
    const {
      issuer,
      jwksUrl,
      audience,
      algorithms = DEFAULT_ALGORITHMS,
      clockToleranceSec = 30,
    } = options
    secureUrlFrom(issuer, 'auth.issuers.issuer')
    this.issuer = issuer
    this.metadata = new IssuerMetadata({ issuer, ...edges })
    this.#audience = typeof audience === 'string' ? [audience] : [...audience]
    this.#algorithms = [...algorithms]
    this.#clockToleranceSec = clockToleranceSec
    this.#edges = edges
    if (this.#audience.length === 0 || this.#audience.some((each) => each === '')) {
      throw misfit('audience', 'needs an audience: tokens for others would be accepted without one')
    }
    if (this.#algorithms.length === 0 || !this.#algorithms.every((name) => ASYMMETRIC.test(name))) {
      throw misfit('algorithms', 'may have algorithms with public keys only, and needs one')
    }
    if (jwksUrl !== undefined) {
      this.#keys = Promise.resolve(this.#keysAt(secureUrlFrom(jwksUrl, 'auth.issuers.jwksUrl')))
    }
  }

  /** Never throws. */
  async verify(token: string): Promise<JwtVerdict> {
    try {
      const keys = await this.#keySet()
      const { payload } = await jwtVerify(token, keys, {
        issuer: this.issuer,
        audience: this.#audience,
        algorithms: this.#algorithms,
        clockTolerance: this.#clockToleranceSec,
        requiredClaims: ['exp'],
        currentDate: new Date(this.#edges.now()),
      })
      return payload
    } catch (error) {
      return saysNo(error) ? 'refused' : 'unavailable'
    }
  }

  #keySet(): Promise<JWTVerifyGetKey> {
    if (this.#keys) return this.#keys
    const keys = this.metadata.read().then((document) => this.#keysAt(jwksUrlFrom(document)))
    this.#keys = keys
    keys.catch(() => (this.#keys = undefined))
    return keys
  }

  #keysAt(url: URL): JWTVerifyGetKey {
    const { fetch, now, timeoutMs, keyCooldownMs } = this.#edges
    let askAgainAt = 0
    return createRemoteJWKSet(url, {
      timeoutDuration: timeoutMs,
      cooldownDuration: keyCooldownMs,
      [customFetch]: async (address, init) => {
        if (now() < askAgainAt) throw new Error('No keys a moment ago')
        try {
          const response = await fetch(address, init)
          const body = await readBounded(response, MAX_KEYS_BYTES)
          if (response.status !== 200) askAgainAt = now() + PAUSE_MS
          return new Response(Uint8Array.from(body), { status: response.status })
        } catch (error) {
          askAgainAt = now() + PAUSE_MS
          throw error
        }
      },
    })
  }
}

/** Whether an error is about the token. All else is about the issuer, or about the way there. */
function saysNo(error: unknown): boolean {
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

function misfit(option: string, complaint: string): GatewayError {
  return new GatewayError('CONFIG', `An issuer of jwtAuth() ${complaint}`, {
    path: `auth.issuers.${option}`,
  })
}
