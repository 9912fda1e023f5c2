import { untilAborted } from '@x/internal'
import type { ResponseHeaders } from '../headers.ts'
import { TransportError } from '../transport-error.ts'
import { AuthError, isOAuthClientProvider, storedTokens } from './auth-provider.ts'
import type {
  AuthorizationCallback,
  AuthProvider,
  DpopSession,
  OAuthClientProvider,
} from './auth-provider.ts'
import type { OAuthFlow } from './oauth-flow.ts'

/** `fetch` over the transport's dispatcher, with limits and without the caller's headers. */
export type FetchFunction = (url: string | URL, init?: RequestInit) => Promise<Response>

/** A response that refuses a request. */
export interface RefusedResponse {
  readonly status: number
  readonly headers: ResponseHeaders
  /** The body as far as it was read, without the values of the user's headers. */
  readonly text: string
}

/** A request for another token than the refused one. */
export interface Renewal {
  /** Undefined if the request carried no token. */
  readonly refused: string | undefined
  readonly refusal: RefusedResponse
  /** More scopes are needed: a refresh would not give them. */
  readonly isStepUp: boolean
  /** Aborts when the request that needs the token ends. */
  readonly signal: AbortSignal
}

export interface Credential {
  readonly token: string
  /** Flat list: name, value, name, value. */
  readonly headers: readonly string[]
}

/** Origin that each provider serves, from its first use on. */
const ORIGINS = new WeakMap<AuthProvider, string>()

/**
 * Reserves a provider for the origin of a server, for the life of the provider: its tokens are sent to no
 * other origin.
 *
 * @throws TransportError `CONFIG` for a provider that serves another origin
 * @example
 * ```ts
 * import { reserveAuthProvider } from '@x/mcp-transport'
 * import { bearer } from '@x/mcp-transport/auth'
 *
 * const provider = bearer(() => process.env['SHOP_TOKEN'])
 * reserveAuthProvider(provider, 'https://shop.example/mcp') // its tokens go nowhere else
 * ```
 */
export function reserveAuthProvider(provider: AuthProvider, serverUrl: string | URL): void {
  const { origin, pathname } = new URL(serverUrl)
  const reserved = ORIGINS.get(provider)
  if (reserved === undefined) ORIGINS.set(provider, origin)
  else if (reserved !== origin) {
    const message = `authProvider: this provider serves ${reserved}, and its tokens must not be sent to ${origin}. Make one provider for each server`
    throw new TransportError('CONFIG', message, { url: origin + pathname })
  }
}

/** A renewal in progress, and the number of requests that wait for it. */
interface Flight {
  readonly controller: AbortController
  readonly done: Promise<void>
  waiting: number
  /** The user was asked to sign in. */
  isAsking: boolean
}

/** The renewal in progress of each provider: all transports with the same provider share it. */
const FLIGHTS = new WeakMap<AuthProvider, Flight>()

/** Gets the credentials of one transport from its provider. */
export class Authorizer {
  readonly #provider: AuthProvider
  readonly #serverUrl: URL
  readonly #fetch: FetchFunction
  #dpop: DpopSession | undefined
  #evidence: TransportError | undefined

  /** @throws TransportError `CONFIG` for a provider that serves another origin */
  constructor(provider: AuthProvider, serverUrl: URL, fetch: FetchFunction) {
    reserveAuthProvider(provider, serverUrl)
    this.#provider = provider
    this.#serverUrl = serverUrl
    this.#fetch = fetch
  }

  /** Reason why the last request may have ended without an answer: the user has not signed in. */
  get evidence(): TransportError | undefined {
    return this.#evidence
  }

  /** Returns the credential for the next request; undefined if there is none yet. */
  async credential(httpMethod: string): Promise<Credential | undefined> {
    this.#evidence = undefined
    const provider = this.#provider
    if (!isOAuthClientProvider(provider)) return bearerCredential(await provider.token())
    const tokens = await storedTokens(provider, this.#serverUrl)
    const bearer = bearerCredential(tokens?.access_token)
    if (bearer === undefined || tokens?.token_type.toLowerCase() !== 'dpop') return bearer
    this.#dpop = await provider.dpop?.()
    if (this.#dpop === undefined) return bearer
    const { token } = bearer
    const request = { htm: httpMethod, htu: this.#serverUrl, accessToken: token }
    const proof = await this.#dpop.buildProof(request)
    return { token, headers: ['authorization', `DPoP ${token}`, 'dpop', proof] }
  }

  /** Keeps the DPoP nonce of any response (RFC 9449, section 8.2). */
  observe(headers: ResponseHeaders): void {
    const nonce = headers['dpop-nonce']
    if (typeof nonce === 'string') this.#dpop?.rememberNonce(this.#serverUrl, nonce)
  }

  /**
   * Resolves when the current token is not the refused one. Runs one renewal at a time for all requests with the
   * same provider; a request with an older token than the current one needs no renewal.
   *
   * @throws AuthError, TransportError or an error of the provider, if no other token is left. TransportError
   * `CLOSED` after `signal` aborted.
   */
  async renew(renewal: Renewal): Promise<void> {
    while (!(await this.#isReplaced(renewal.refused))) {
      const running = FLIGHTS.get(this.#provider)
      const flight = running ?? this.#start(renewal)
      try {
        await wait(flight, renewal.signal)
        if (running === undefined) return
      } catch (error) {
        if (renewal.signal.aborted) {
          if (flight.isAsking) this.#evidence = notSignedIn(this.#serverUrl, error)
          throw error
        }
        // Another process may have got a token, or `finish` may have completed an authorization.
        if (await this.#isReplaced(renewal.refused)) return
        // The transport that started the renewal was closed: this request starts another one.
        const isClosed = TransportError.is(error) && error.code === 'CLOSED'
        if (running === undefined || !isClosed) throw error
      }
    }
  }

  /**
   * Completes an authorization that sent the user away. Runs beside a renewal: the renewal may be waiting for the
   * user whose callback this is.
   *
   * @throws AuthError, for instance `LIBRARY_MISSING`
   */
  async finish(callback: AuthorizationCallback): Promise<void> {
    const provider = this.#provider
    if (!isOAuthClientProvider(provider)) {
      throw new TypeError('finishAuth() needs an OAuthClientProvider as authProvider')
    }
    const flow = await this.#flow(provider, new AbortController().signal)
    await flow.finish(callback)
  }

  /** The OAuth library is loaded when a server first refuses a token: most processes never need it. */
  async #flow(
    provider: OAuthClientProvider,
    signal: AbortSignal,
    onAsked?: () => void,
  ): Promise<OAuthFlow> {
    const { createOAuthFlow } = await import('./oauth-flow.ts')
    const [serverUrl, fetch] = [this.#serverUrl, this.#fetch]
    return createOAuthFlow({ provider, serverUrl, fetch, signal, onAsked })
  }

  #start(renewal: Renewal): Flight {
    const controller = new AbortController()
    const onAsked = (): void => void (flight.isAsking = true)
    const done = this.#obtain({ ...renewal, signal: controller.signal }, onAsked).finally(() => {
      FLIGHTS.delete(this.#provider)
    })
    done.catch(() => {}) // the requests that wait get the error
    const flight: Flight = { controller, done, waiting: 0, isAsking: false }
    FLIGHTS.set(this.#provider, flight)
    return flight
  }

  async #isReplaced(refused: string | undefined): Promise<boolean> {
    const provider = this.#provider
    const token = isOAuthClientProvider(provider)
      ? (await storedTokens(provider, this.#serverUrl))?.access_token
      : await provider.token({ refused })
    return token !== undefined && token !== refused
  }

  /** Gets another token. `signal` aborts when no request waits for it any more. */
  async #obtain(renewal: Renewal, onAsked: () => void): Promise<void> {
    const provider = this.#provider
    const { refused, refusal, signal } = renewal
    if (isOAuthClientProvider(provider)) {
      const flow = await this.#flow(provider, signal, onAsked)
      return flow.obtain(renewal, () => this.#isReplaced(refused))
    }
    await provider.onUnauthorized?.({
      response: toResponse(refusal),
      serverUrl: this.#serverUrl,
      fetchFn: (input, init) => this.#fetch(input, { ...init, signal }),
    })
    const token = await provider.token({ refused })
    if (token !== undefined && token !== refused) return
    const what = token === undefined ? 'gives no token' : 'gives the same token again'
    throw new AuthError('TOKEN_REFUSED', `The provider for ${this.#serverUrl.origin} ${what}`)
  }
}

function bearerCredential(token: string | undefined): Credential | undefined {
  if (token === undefined) return undefined
  if (/^[\x21-\x7E]+$/.test(token)) return { token, headers: ['authorization', `Bearer ${token}`] }
  throw new TypeError('The token is empty, or holds characters that no header may hold')
}

/** Waits for a renewal, and aborts it if no other request waits for it. */
async function wait(flight: Flight, signal: AbortSignal): Promise<void> {
  flight.waiting += 1
  try {
    await untilAborted(flight.done, signal)
  } catch (error) {
    if (!signal.aborted) throw error
    throw new TransportError('CLOSED', 'The request ended before it had a token')
  } finally {
    flight.waiting -= 1
    if (flight.waiting === 0) flight.controller.abort()
  }
}

function notSignedIn({ origin, pathname }: URL, cause: unknown): TransportError {
  return new TransportError('UNAUTHORIZED', 'nobody has signed in yet', {
    url: origin + pathname,
    cause,
  })
}

export function toResponse({ status, headers, text }: RefusedResponse): Response {
  const isEmpty = status === 204 || status === 205 || status === 304
  const all = new Headers() // before the response, which would add a content type
  for (const [name, value = []] of Object.entries(headers)) {
    for (const one of [value].flat()) all.append(name, one)
  }
  return new Response(isEmpty ? null : text, { status, headers: all })
}

/** Parameters of a Bearer or DPoP challenge (RFC 6750, section 3; RFC 9728, section 5.1; RFC 9449, section 9). */
export interface Challenge {
  readonly error: string | undefined
  readonly scope: string | undefined
  readonly resourceMetadata: string | undefined
}

/** A longer header is cut, so that a hostile server cannot make parsing expensive. */
const MAX_LENGTH = 8192

/** Reads the Bearer and DPoP challenges of a response, merged (RFC 9110, section 11.6.1). */
export function oauthChallenge(headers: ResponseHeaders): Challenge {
  const header = [headers['www-authenticate'] ?? []].flat().join(', ').slice(0, MAX_LENGTH)
  const start = header.search(/(?<![^\s,])(?:bearer|dpop)(?![^\s,])/i)
  const parameters = new Map<string, string>()
  const parameter = /([\w-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]*))/g
  for (const match of start === -1 ? [] : header.slice(start).matchAll(parameter)) {
    const [, name = '', quoted, plain = ''] = match
    const key = name.toLowerCase()
    if (!parameters.has(key)) parameters.set(key, quoted?.replaceAll(/\\(.)/g, '$1') ?? plain)
  }
  return {
    error: parameters.get('error'),
    scope: parameters.get('scope'),
    resourceMetadata: parameters.get('resource_metadata'),
  }
}

/** `renew`: get another token; `step-up`: get more scopes; `nonce`: send again with the DPoP nonce of the refusal. */
export type AuthStep = 'renew' | 'step-up' | 'nonce'

/** Limit of the conformance suite for authorizations of one request. */
const MAX_AUTHORIZATIONS = 3

/**
 * Limits the attempts of one request: one nonce, another token after the first 401, more scopes once for each set
 * of scopes, three authorizations in all.
 */
export class AuthAttempts {
  #isNonceUsed = false
  /** `renew`, and the sets of scopes. */
  readonly #authorizations = new Set<string>()

  /** Returns the next step after a refusal; undefined if the refusal is final. */
  next({ status, headers }: Pick<RefusedResponse, 'status' | 'headers'>): AuthStep | undefined {
    const { error, scope = '' } = oauthChallenge(headers)
    if (status === 401 && error === 'use_dpop_nonce' && !this.#isNonceUsed) {
      this.#isNonceUsed = true
      return 'nonce'
    }
    const isStepUp = status === 403 && error === 'insufficient_scope'
    if (status !== 401 && !isStepUp) return undefined
    const reason = isStepUp ? scope.split(' ').toSorted().join(' ') : 'renew'
    const all = this.#authorizations
    if (all.size >= MAX_AUTHORIZATIONS || all.has(reason)) return undefined
    all.add(reason)
    return isStepUp ? 'step-up' : 'renew'
  }
}
