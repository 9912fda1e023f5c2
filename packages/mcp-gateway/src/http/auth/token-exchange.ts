import { check, isRecord, isVisibleAscii, untilAborted, BoundedMap, type Checks } from '@x/internal'
import { decodeJwt } from 'jose'
import { assertGatewayOptions, GatewayError, type GatewayErrorCode } from '../../errors.ts'
import { readBounded } from '../../internal/guarded-fetch.ts'
import type { Principal } from '../../internal/principal.ts'
import { hashOf, valueFromJson } from '../../internal/text.ts'
import type {
  CredentialsProvider,
  CredentialTarget,
  UserCredentials,
  UserToken,
} from '../../internal/user-credentials.ts'
import { secureUrlFrom } from './authenticator.ts'
import {
  EXCHANGE_PROFILE_NAMES,
  EXCHANGE_PROFILES,
  ID_JAG,
  JWT_BEARER,
} from './exchange-profiles.ts'
import type { ExchangeProfile, ExchangeProfileName } from './exchange-profiles.ts'

/** A client of a token endpoint. */
export interface ExchangeClient {
  /** URL of the token endpoint. */
  readonly tokenUrl: string
  /** Id of the gateway there. */
  readonly clientId: string
  /** Secret of the gateway there. */
  readonly clientSecret: string
}

/** A server for which tokens may be requested. */
export interface ExchangeTarget {
  /** Its name at the token endpoint: for Keycloak a client id, for ID-JAG the issuer of its authorization server. @default its resource */
  readonly audience?: string | undefined
  /** Scopes of its tokens. An agent may ask for fewer, and for no others. @default what the agent asks for, or none; for Entra `<resource>/.default` */
  readonly scopes?: readonly string[] | undefined
  /** Only for the profile `id-jag`: the authorization server of the target, which gives a token for the ID-JAG. */
  readonly authorizationServer?: ExchangeClient | undefined
}

export interface TokenExchangeOptions extends ExchangeClient {
  /** Servers by resource, which is usually the URL of the MCP endpoint. Tokens for others are refused. */
  readonly targets: Readonly<Record<string, ExchangeTarget>>
  /** Dialect of the token endpoint: the name of a profile, or your own profile. @default 'rfc8693' */
  readonly profile?: ExchangeProfileName | ExchangeProfile | undefined
  /** @default globalThis.fetch */
  readonly fetch?: typeof globalThis.fetch | undefined
  /** Milliseconds since 1970. @default Date.now */
  readonly now?: (() => number) | undefined
}

const clientChecks: Checks<ExchangeClient> = {
  tokenUrl: check.required(check.string),
  clientId: check.required(check.text),
  clientSecret: check.required(check.text),
}

const targetChecks: Checks<ExchangeTarget> = {
  audience: check.text,
  scopes: check.listOf(check.text),
  authorizationServer: check.section(clientChecks),
}

const profileChecks: Checks<ExchangeProfile> = {
  grantType: check.required(check.text),
  subjectParameter: check.required(check.oneOf('subject_token', 'assertion')),
  subjectTokenType: check.text,
  requestedTokenType: check.text,
  targetParameters: check.required(check.listOf(check.oneOf('audience', 'resource'))),
  clientAuthentication: check.required(check.oneOf('basic', 'body')),
  parameters: check.mapOf(check.string),
  scopeSuffix: check.text,
}

const optionChecks: Checks<TokenExchangeOptions> = {
  ...clientChecks,
  targets: check.required(check.mapOf(check.section(targetChecks))),
  profile: check.or(check.oneOf(...EXCHANGE_PROFILE_NAMES), check.section(profileChecks)),
  fetch: check.func,
  now: check.func,
}

/**
 * Exchanges tokens of callers for tokens of other servers (RFC 8693, on-behalf-of of Entra, ID-JAG), one for each server and
 * user. Give it to `createGateway()` as `credentials`.
 *
 * @throws GatewayError `CONFIG` if an option is unknown or has a wrong value
 * @example
 * ```ts
 * import { createGateway, jwtAuth, tokenExchange } from '@x/mcp-gateway'
 *
 * const resource = 'https://agents.example/mcp'
 * const gateway = createGateway({
 *   auth: jwtAuth({ issuers: [{ issuer: 'https://login.example', audience: resource }], resource }),
 *   credentials: tokenExchange({
 *     tokenUrl: 'https://login.example/token',
 *     clientId: 'gateway',
 *     clientSecret: process.env['CLIENT_SECRET'] ?? '',
 *     targets: { 'https://orders.example/mcp': { scopes: ['orders.read'] } },
 *   }),
 * })
 * ```
 */
export function tokenExchange(options: TokenExchangeOptions): CredentialsProvider {
  assertGatewayOptions('tokenExchange()', options, optionChecks)
  return new TokenExchange(options)
}

/** Tokens of all users. The oldest one goes first. */
const MAX_TOKENS = 10_000
/** A token that does not say when it ends. */
const DEFAULT_LIFE_MS = 60_000
/** Before its end, a token is not used any more. For short tokens: half of their life. */
const SKEW_MS = 30_000
/** In this time, a refusal that has to do with rules is not asked for again. */
const REFUSAL_MS = 10_000
/** Time limit of one exchange. */
const EXCHANGE_MS = 5000
const MAX_ANSWER_BYTES = 65_536

/** A token that was requested. */
interface Exchange {
  readonly token: Promise<UserToken>
  /** `Infinity` during the request. */
  until: number
  /** The token, once it is there. */
  accessToken?: string
}

/** Target of one exchange. */
interface Wanted {
  /** Name of the target in messages, and at the token endpoint. */
  readonly audience: string
  readonly hasOwnAudience: boolean
  readonly resource: string
  readonly scopes: readonly string[]
  readonly authorizationServer: ExchangeClient | undefined
}

class TokenExchange implements CredentialsProvider {
  readonly #options: TokenExchangeOptions
  readonly #profile: ExchangeProfile
  /** By resource in its usual spelling, with the spelling of the options. */
  readonly #targets: ReadonlyMap<string, ExchangeTarget & { readonly resource: string }>
  readonly #now: () => number
  /** By hash of principal, caller's token, resource and scopes. */
  readonly #exchanges = new BoundedMap<string, Exchange>(MAX_TOKENS)

  constructor(options: TokenExchangeOptions) {
    const { now = Date.now, profile = 'rfc8693', targets } = options
    secureUrlFrom(options.tokenUrl, 'credentials.tokenUrl')
    this.#options = options
    this.#profile = typeof profile === 'string' ? EXCHANGE_PROFILES[profile] : profile
    this.#now = now
    this.#targets = new Map(
      Object.entries(targets).map(([resource, target]) => [
        usualSpelling(resource),
        { ...target, resource },
      ]),
    )
    const isIdJag = this.#profile.requestedTokenType === ID_JAG
    for (const [resource, { authorizationServer: server }] of Object.entries(targets)) {
      const path = `credentials.targets.${resource}.authorizationServer`
      if (server) secureUrlFrom(server.tokenUrl, `${path}.tokenUrl`)
      if (isIdJag === (server !== undefined)) continue
      const text = isIdJag ? 'is missing: an ID-JAG is only for it' : 'is for the profile id-jag'
      throw new GatewayError('CONFIG', `tokenExchange(): ${path} ${text}`, { path })
    }
  }

  credentialsFor({ id }: Principal, subject: string): UserCredentials {
    return new CallerCredentials(
      (target) => this.#tokenFor(id, subject, target),
      (target) => this.#reject(id, subject, target),
    )
  }

  async #tokenFor(user: string, subject: string, target: CredentialTarget): Promise<UserToken> {
    const wanted = this.#wanted(target)
    const { audience } = wanted
    const subjectEnd = endOfJwt(subject) ?? Infinity
    if (subjectEnd <= this.#now()) throw expired(audience)
    const key = keyOf(user, subject, wanted)
    let exchange = this.#exchanges.get(key)
    if (exchange === undefined || exchange.until <= this.#now()) {
      exchange = this.#begin(key, wanted, { subject, subjectEnd })
    }
    return target.signal ? untilAborted(exchange.token, target.signal) : exchange.token
  }

  /** One exchange for all that want the same token. */
  #begin(
    key: string,
    wanted: Wanted,
    { subject, subjectEnd }: { readonly subject: string; readonly subjectEnd: number },
  ): Exchange {
    const exchange: Exchange = { token: this.#exchange(subject, wanted), until: Infinity }
    this.#exchanges.delete(key) // so that the new one is the newest
    this.#exchanges.set(key, exchange)
    void this.#limit(exchange, subjectEnd)
    return exchange
  }

  /** Sets how long the result of an exchange is used. */
  async #limit(exchange: Exchange, subjectEnd: number): Promise<void> {
    try {
      const { accessToken, expiresAt } = await exchange.token
      const now = this.#now()
      const end = Math.min(expiresAt ?? now + DEFAULT_LIFE_MS, subjectEnd)
      exchange.accessToken = accessToken
      exchange.until = end - Math.min(SKEW_MS, (end - now) / 2)
    } catch (error) {
      const isRule = GatewayError.is(error) && RULES.has(error.code)
      exchange.until = isRule ? this.#now() + REFUSAL_MS : 0
    }
  }

  #reject(
    user: string,
    subject: string,
    target: CredentialTarget & Pick<UserToken, 'accessToken'>,
  ): void {
    const exchange = this.#exchanges.get(keyOf(user, subject, this.#wanted(target)))
    // A late refusal must not remove the token that has replaced the refused one.
    if (exchange?.accessToken === target.accessToken) exchange.until = 0
  }

  /**
   * @throws GatewayError `WRONG_AUDIENCE` for a server without a target; `EXCHANGE_REFUSED` for scopes that its target
   *   lacks
   */
  #wanted({ resource: asked, scopes, server }: CredentialTarget): Wanted {
    const target = this.#targets.get(usualSpelling(asked))
    if (target === undefined) {
      const why = `Tokens for ${asked} (server "${server}") are not requested: add it to the targets of tokenExchange()`
      throw new GatewayError('WRONG_AUDIENCE', why, { audience: asked })
    }
    const { audience, authorizationServer, resource, scopes: allowed } = target
    const others = scopes?.filter((scope) => allowed?.includes(scope) === false) ?? []
    if (others.length > 0) {
      const why = `Tokens for ${resource} (server "${server}") are not requested with the scopes ${others.join(' ')}: add them to its target of tokenExchange()`
      throw new GatewayError('EXCHANGE_REFUSED', why, { audience: resource })
    }
    const { scopeSuffix } = this.#profile
    const given = scopes ?? allowed ?? (scopeSuffix ? [`${resource}${scopeSuffix}`] : [])
    return {
      audience: audience ?? resource,
      hasOwnAudience: audience !== undefined,
      resource,
      scopes: given.toSorted(),
      authorizationServer,
    }
  }

  async #exchange(subject: string, wanted: Wanted): Promise<UserToken> {
    const { audience, authorizationServer, resource, scopes } = wanted
    const profile = this.#profile
    const form = new URLSearchParams({
      grant_type: profile.grantType,
      [profile.subjectParameter]: subject,
      ...(profile.subjectTokenType && { subject_token_type: profile.subjectTokenType }),
      ...(profile.requestedTokenType && { requested_token_type: profile.requestedTokenType }),
      ...profile.parameters,
      ...(scopes.length > 0 && { scope: scopes.join(' ') }),
    })
    const { targetParameters } = profile
    for (const name of targetParameters) {
      // Without a name of its own, the resource is enough.
      const isRepeated = name === 'audience' && !wanted.hasOwnAudience
      if (!isRepeated || targetParameters.length === 1) form.set(name, wanted[name])
    }
    const answer = await this.#request(this.#options, form, audience)
    if (authorizationServer === undefined) {
      return this.#tokenFrom(answer, audience, profile.scopeSuffix ? [] : [audience, resource])
    }
    const second = new URLSearchParams({
      grant_type: JWT_BEARER,
      assertion: accessTokenOf(answer, audience),
      ...(scopes.length > 0 && { scope: scopes.join(' ') }),
    })
    return this.#tokenFrom(await this.#request(authorizationServer, second, audience), audience, [
      resource,
    ])
  }

  /** Sends a form to a token endpoint. Returns the answer if it is a success. @throws GatewayError with the audience */
  async #request(
    { tokenUrl, clientId, clientSecret }: ExchangeClient,
    form: URLSearchParams,
    audience: string,
  ): Promise<Readonly<Record<string, unknown>>> {
    const { fetch = globalThis.fetch } = this.#options
    const headers = new Headers({ accept: 'application/json' })
    if (this.#profile.clientAuthentication === 'basic') {
      const pair = `${encodeURIComponent(clientId)}:${encodeURIComponent(clientSecret)}` // RFC 6749, section 2.3.1
      headers.set('authorization', `Basic ${Buffer.from(pair).toString('base64')}`)
    } else {
      form.set('client_id', clientId)
      form.set('client_secret', clientSecret)
    }
    let status: number
    let body: unknown
    try {
      const signal = AbortSignal.timeout(EXCHANGE_MS)
      const init = { method: 'POST', headers, body: form, redirect: 'error', signal } as const
      const response = await fetch(tokenUrl, init)
      status = response.status
      body = valueFromJson((await readBounded(response, MAX_ANSWER_BYTES)).toString('utf8'))
    } catch (cause) {
      const { origin } = new URL(tokenUrl)
      const message = `No token for ${audience}: the authorization server ${origin} did not answer. Call again in a moment`
      throw new GatewayError('UNAVAILABLE', message, { cause, audience })
    }
    const answer = isRecord(body) ? body : {}
    if (status === 200 && answer['error'] === undefined) return answer
    throw refusal(audience, status, answer['error'])
  }

  #tokenFrom(
    answer: Readonly<Record<string, unknown>>,
    audience: string,
    expected: readonly string[],
  ): UserToken {
    const accessToken = accessTokenOf(answer, audience)
    const type = String(answer['token_type']).toLowerCase()
    if (type !== 'bearer') throw unusable(audience, 'its token is not a bearer token')
    const named = audiencesOf(accessToken)
    if (expected.length > 0 && named && !named.some((each) => isIn(expected, each))) {
      const message = `The authorization server gave a token for another audience than ${audience}. Check the target in tokenExchange()`
      throw new GatewayError('WRONG_AUDIENCE', message, { audience })
    }
    const seconds = Number(answer['expires_in'])
    const expiresAt = seconds > 0 ? this.#now() + seconds * 1000 : endOfJwt(accessToken)
    return { accessToken, expiresAt }
  }
}

/** Holds the caller's token in closures: neither JSON nor a log shows it. */
class CallerCredentials implements UserCredentials {
  readonly #token: UserCredentials['token']
  readonly #rejected: UserCredentials['rejected']

  constructor(token: UserCredentials['token'], rejected: UserCredentials['rejected']) {
    this.#token = token
    this.#rejected = rejected
  }

  token(target: CredentialTarget): Promise<UserToken> {
    return this.#token(target)
  }

  rejected(target: CredentialTarget & Pick<UserToken, 'accessToken'>): void {
    this.#rejected(target)
  }
}

/** Errors that the same request gets again. */
const RULES: ReadonlySet<GatewayErrorCode> = new Set(['WRONG_AUDIENCE', 'EXCHANGE_REFUSED'])

function refusal(audience: string, status: number, error: unknown): GatewayError {
  const known = typeof error === 'string' && /^[a-z_]{1,40}$/.test(error) ? error : undefined
  const shown = known ?? `HTTP ${status}`
  if (status === 429 || status >= 500 || known === 'temporarily_unavailable') {
    const message = `No token for ${audience}: the authorization server cannot give one now (${shown}). Call again in a moment`
    return new GatewayError('UNAVAILABLE', message, { audience })
  }
  if (known === 'invalid_grant') return expired(audience)
  const isTarget = known === 'invalid_target'
  const message = isTarget
    ? `The authorization server gives no tokens for ${audience} (${shown}). Check the target in tokenExchange()`
    : `The authorization server refused a token for ${audience} (${shown}). Check what the client of the gateway may exchange`
  return new GatewayError(isTarget ? 'WRONG_AUDIENCE' : 'EXCHANGE_REFUSED', message, { audience })
}

function expired(audience: string): GatewayError {
  const message = `No token for ${audience}: the sign-in of the user has expired or was revoked. Sign in again`
  return new GatewayError('TOKEN_EXPIRED', message, { audience })
}

function unusable(audience: string, why: string): GatewayError {
  const message = `The answer of the authorization server cannot be used for ${audience}: ${why}`
  return new GatewayError('EXCHANGE_REFUSED', message, { audience })
}

function accessTokenOf(answer: Readonly<Record<string, unknown>>, audience: string): string {
  const { access_token: token } = answer
  if (typeof token === 'string' && isVisibleAscii(token)) return token
  throw unusable(audience, 'it has no access_token')
}

/** By hashes, so that the map of all users holds no token as a key. */
function keyOf(user: string, subject: string, { resource, scopes }: Wanted): string {
  return hashOf([user, subject, resource, ...scopes])
}

function endOfJwt(token: string): number | undefined {
  const { exp } = claimsOf(token)
  return typeof exp === 'number' ? exp * 1000 : undefined
}

function audiencesOf(token: string): readonly unknown[] | undefined {
  const { aud } = claimsOf(token)
  return aud === undefined ? undefined : [aud].flat()
}

/** Claims of a token that others check. An opaque token has none. */
function claimsOf(token: string): Readonly<Record<string, unknown>> {
  try {
    return decodeJwt(token)
  } catch {
    return {}
  }
}

function isIn(expected: readonly string[], audience: unknown): boolean {
  return expected.some((each) => usualSpelling(each) === usualSpelling(String(audience)))
}

/** A resource is the same with and without a final slash, a default port, and capitals in its scheme and host. */
function usualSpelling(resource: string): string {
  const { href } = URL.parse(resource) ?? { href: resource }
  return href.replace(/\/$/, '')
}
