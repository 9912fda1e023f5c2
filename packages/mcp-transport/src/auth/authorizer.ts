import { untilAborted } from '@x/internal'
import type { ResponseHeaders } from '../headers.ts'
import { TransportError } from '../transport-error.ts'
import { AuthError, isOAuthClientProvider, storedTokens } from './auth-provider.ts'
import type { AuthorizationCallback, AuthProvider, DpopSession } from './auth-provider.ts'

/** `fetch` over the transport's dispatcher, with limits and without the caller's headers. */
export type FetchFunction = (url: string | URL, init?: RequestInit) => Promise<Response>

/** How requests for authorization are sent, and until when. */
export interface AuthEdges {
  readonly fetch: FetchFunction
  /** Aborts when the request that needs the authorization ends. */
  readonly signal: AbortSignal
}

/** A response that refuses a request. */
export interface RefusedResponse {
  readonly status: number
  readonly headers: ResponseHeaders
  /** The start of the body. */
  readonly text: string
}

/** A request for another token than the refused one. */
export interface Renewal extends AuthEdges {
  /** Undefined if the request carried no token. */
  readonly refused: string | undefined
  readonly refusal: RefusedResponse
  readonly challenge: Challenge | undefined
  readonly isStepUp: boolean
}

/** The credential of one HTTP request. */
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
}

/** The renewal in progress of each provider: all transports with the same provider share it. */
const FLIGHTS = new WeakMap<AuthProvider, Flight>()

/** Gets the credentials of one transport from its provider. */
export class Authorizer {
  readonly #provider: AuthProvider
  readonly #serverUrl: URL
  /** Credential of the last request. */
  #last: Credential | undefined
  #dpop: DpopSession | undefined

  /** @throws TransportError `CONFIG` for a provider that serves another origin */
  constructor(provider: AuthProvider, serverUrl: URL) {
    reserveAuthProvider(provider, serverUrl)
    this.#provider = provider
    this.#serverUrl = serverUrl
  }

  /** Returns the credential for the next request; undefined if there is none yet. */
  async credential(httpMethod: string): Promise<Credential | undefined> {
    const provider = this.#provider
    if (!isOAuthClientProvider(provider)) return this.#bearer(await provider.token())
    const tokens = await storedTokens(provider, this.#serverUrl)
    const bearer = this.#bearer(tokens?.access_token)
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
      try {
        await wait(running ?? this.#start(renewal), renewal.signal)
        if (running === undefined) return
      } catch (error) {
        if (renewal.signal.aborted) throw error
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
   */
  async finish(callback: AuthorizationCallback, edges: AuthEdges): Promise<void> {
    const provider = this.#provider
    if (!isOAuthClientProvider(provider)) {
      throw new TypeError('finishAuth() needs an OAuthClientProvider as authProvider')
    }
    const { startFlow } = await import('./oauth-flow.ts')
    const flow = await startFlow({ ...edges, provider, serverUrl: this.#serverUrl })
    await flow.finish(callback)
  }

  #start(renewal: Renewal): Flight {
    const controller = new AbortController()
    const done = this.#obtain({ ...renewal, signal: controller.signal }).finally(() => {
      FLIGHTS.delete(this.#provider)
    })
    done.catch(() => {}) // the requests that wait get the error
    const flight = { controller, done, waiting: 0 }
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
  async #obtain({ refused, refusal, challenge, isStepUp, fetch, signal }: Renewal): Promise<void> {
    const provider = this.#provider
    const serverUrl = this.#serverUrl
    if (isOAuthClientProvider(provider)) {
      // Loaded when a server first refuses a token: most processes never need it.
      const { startFlow } = await import('./oauth-flow.ts')
      const flow = await startFlow({ provider, serverUrl, fetch, signal })
      return flow.obtain(challenge, isStepUp)
    }
    await provider.onUnauthorized?.({
      response: toResponse(refusal),
      serverUrl,
      fetchFn: (input, init) => fetch(input, { ...init, signal }),
    })
    const token = await provider.token({ refused })
    if (token !== undefined && token !== refused) return
    const what = token === undefined ? 'gives no token' : 'gives the same token again'
    throw new AuthError('TOKEN_REFUSED', `The provider for ${serverUrl.origin} ${what}`)
  }

  #bearer(token: string | undefined): Credential | undefined {
    if (token === undefined) return undefined
    if (token === this.#last?.token) return this.#last
    if (/^[\x21-\x7E]+$/.test(token)) {
      return (this.#last = { token, headers: ['authorization', `Bearer ${token}`] })
    }
    throw new TypeError('The token is empty, or holds characters that no header may hold')
  }
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

export function toResponse({ status, headers, text }: RefusedResponse): Response {
  const isEmpty = status === 204 || status === 205 || status === 304
  const response = new Response(isEmpty ? null : text, { status })
  for (const [name, value = []] of Object.entries(headers)) {
    for (const one of [value].flat()) response.headers.append(name, one)
  }
  return response
}

/** One challenge of a `WWW-Authenticate` header (RFC 9110, section 11.6.1). */
interface SchemeChallenge {
  /** In lower case. */
  readonly scheme: string
  /** Names in lower case. A repeated parameter keeps its first value. */
  readonly parameters: ReadonlyMap<string, string>
}

/** Parameters of a Bearer or DPoP challenge (RFC 6750, section 3; RFC 9728, section 5.1; RFC 9449, section 9). */
export interface Challenge {
  readonly error?: string | undefined
  readonly scope?: string | undefined
  readonly resourceMetadata?: string | undefined
}

/** A longer header is cut, so that a hostile server cannot make parsing expensive. */
const MAX_LENGTH = 8192

/** Parses all challenges of one header value. Skips what is malformed. */
export function parseChallenges(value: string): SchemeChallenge[] {
  const challenges: { scheme: string; parameters: Map<string, string> }[] = []
  const token = /([!#$%&'*+.^_`|~0-9A-Za-z-]+)(\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]*)))?/y
  const text = value.slice(0, MAX_LENGTH)
  let position = 0
  while (position < text.length) {
    token.lastIndex = position
    const match = token.exec(text)
    if (match === null) {
      position += 1
      continue
    }
    position = token.lastIndex
    const [, name = '', assignment, quoted, plain = ''] = match
    const lower = name.toLowerCase()
    if (assignment === undefined) challenges.push({ scheme: lower, parameters: new Map() })
    else {
      const parameters = challenges.at(-1)?.parameters
      if (parameters === undefined || parameters.has(lower)) continue
      parameters.set(lower, quoted === undefined ? plain : quoted.replaceAll(/\\(.)/g, '$1'))
    }
  }
  return challenges
}

/** The Bearer and DPoP challenges of a response, merged; undefined if there are none. */
export function oauthChallenge(headers: ResponseHeaders): Challenge | undefined {
  const value = headers['www-authenticate']
  const values = typeof value === 'string' ? [value] : (value ?? [])
  const all = values.flatMap(parseChallenges)
  const found = ['dpop', 'bearer'].flatMap((name) => all.filter(({ scheme }) => scheme === name))
  if (found.length === 0) return undefined
  const first = (name: string): string | undefined =>
    found.find(({ parameters }) => parameters.has(name))?.parameters.get(name)
  return {
    error: first('error'),
    scope: first('scope'),
    resourceMetadata: first('resource_metadata'),
  }
}

/** `renew`: get another token; `step-up`: get more scopes; `nonce`: send again with the DPoP nonce of the refusal. */
export type AuthStep = 'renew' | 'step-up' | 'nonce'

/** Limit of the conformance suite for authorizations of one request. */
const MAX_AUTHORIZATIONS = 3

/**
 * Limits the attempts of one request: another token after the first 401, more scopes once for each set of
 * scopes, three authorizations in all. A nonce is used once for each token.
 */
export class AuthAttempts {
  #count = 0
  #isRenewed = false
  #isNonceUsed = false
  readonly #scopes: string[] = []

  /** Returns the next step after a refusal; undefined if the refusal is final. */
  next(status: number, challenge: Challenge | undefined): AuthStep | undefined {
    if (status === 401 && challenge?.error === 'use_dpop_nonce' && !this.#isNonceUsed) {
      this.#isNonceUsed = true
      return 'nonce'
    }
    if (this.#count >= MAX_AUTHORIZATIONS) return undefined
    if (status === 401 && !this.#isRenewed) {
      this.#isRenewed = true
      return this.#authorize('renew')
    }
    if (status !== 403 || challenge?.error !== 'insufficient_scope') return undefined
    const scopes = [...new Set(challenge.scope?.split(' '))].toSorted().join(' ')
    if (this.#scopes.includes(scopes)) return undefined
    this.#scopes.push(scopes)
    return this.#authorize('step-up')
  }

  #authorize(attempt: AuthStep): AuthStep {
    this.#count += 1
    this.#isNonceUsed = false
    return attempt
  }
}
