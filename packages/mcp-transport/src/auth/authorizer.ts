import { untilAborted } from '@x/internal'
import type { ResponseHeaders } from '../headers.ts'
import { TransportError } from '../transport-error.ts'
import { AuthError, isOAuthClientProvider, storedTokens } from './auth-provider.ts'
import type {
  AuthorizationCallback,
  AuthProvider,
  DpopSession,
  OAuthClientProvider,
  TokenProvider,
} from './auth-provider.ts'

/** `fetch` over the transport's dispatcher, with limits and without the caller's headers. */
export type FetchFunction = (url: string | URL, init?: RequestInit) => Promise<Response>

/** How requests for authorization are sent, and until when. */
export interface AuthEdges {
  readonly fetch: FetchFunction
  /** Aborts when the request that needs the authorization ends. */
  readonly signal: AbortSignal
}

/** A request for another token than the refused one. */
export interface Renewal extends AuthEdges {
  /** Undefined if the request carried no token. */
  readonly refused: string | undefined
  /** The refusal: status, headers and the start of the body. */
  readonly response: Response
  readonly challenge: Challenge | undefined
  readonly isStepUp: boolean
}

/** The credential of one HTTP request. */
export interface Credential {
  readonly token: string
  /** Flat list: name, value, name, value. */
  readonly headers: readonly string[]
}

/** Gets the credentials of one transport from its provider. */
export interface Authorizer {
  /** The credential for the next request; undefined if there is none yet. */
  credential(httpMethod: string): Promise<Credential | undefined>
  /** Keeps the DPoP nonce of any response (RFC 9449, section 8.2). Absent without DPoP. */
  readonly observe?: (headers: ResponseHeaders) => void
  /**
   * Resolves when there is another token than the refused one.
   *
   * @throws AuthError, TransportError or what the provider throws, if there is none.
   */
  renew(renewal: Renewal): Promise<void>
  /** Completes an authorization that sent the user away. */
  finish(callback: AuthorizationCallback, edges: AuthEdges): Promise<void>
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
    throw new TransportError(
      'CONFIG',
      `authProvider: this provider serves ${reserved}, and its tokens must not be sent to ${origin}. Make one provider for each server`,
      { url: origin + pathname },
    )
  }
}

/** @throws TransportError `CONFIG` for a provider that serves another origin */
export function authorizerFor(provider: AuthProvider, serverUrl: URL): Authorizer {
  reserveAuthProvider(provider, serverUrl)
  return isOAuthClientProvider(provider)
    ? oauthAuthorizer(provider, serverUrl)
    : tokenAuthorizer(provider, serverUrl)
}

function tokenAuthorizer(provider: TokenProvider, url: URL): Authorizer {
  const credential = bearerCredentials()
  const renewals = renewalsOf(provider, {
    current: async (refused) => provider.token({ refused }),
    async obtain({ refused, response, fetch, serverUrl }, signal) {
      const fetchFn: FetchFunction = (input, init) => fetch(input, { ...init, signal })
      await provider.onUnauthorized?.({ response, serverUrl, fetchFn })
      const token = await provider.token({ refused })
      if (token !== undefined && token !== refused) return
      const what = token === undefined ? 'gives no token' : 'gives the same token again'
      throw new AuthError('TOKEN_REFUSED', `The provider for ${serverUrl.origin} ${what}`)
    },
  })
  return {
    credential: async () => credential(await provider.token()),
    renew: (renewal) => renewals.renew({ ...renewal, serverUrl: url }),
    async finish() {
      throw new TypeError('finishAuth() needs an OAuthClientProvider as authProvider')
    },
  }
}

/** Loads the OAuth flow when a server first refuses a token: most processes never need it. */
function oauthAuthorizer(provider: OAuthClientProvider, url: URL): Authorizer {
  const bearer = bearerCredentials()
  let session: DpopSession | undefined
  const renewals = renewalsOf(provider, {
    current: async () => (await storedTokens(provider, url))?.access_token,
    async obtain({ challenge, isStepUp, fetch, serverUrl }, signal) {
      const { obtainTokens } = await import('./oauth-flow.ts')
      await obtainTokens({ provider, serverUrl, fetch, signal }, { challenge, isStepUp })
    },
  })
  return {
    async credential(httpMethod) {
      const tokens = await storedTokens(provider, url)
      const credential = bearer(tokens?.access_token)
      if (credential === undefined || tokens?.token_type.toLowerCase() !== 'dpop') return credential
      session = await provider.dpop?.()
      if (session === undefined) return credential
      const { token } = credential
      const proof = await session.buildProof({ htm: httpMethod, htu: url, accessToken: token })
      return { token, headers: ['authorization', `DPoP ${token}`, 'dpop', proof] }
    },
    ...(provider.dpop !== undefined && {
      observe(headers: ResponseHeaders) {
        const nonce = headers['dpop-nonce']
        if (typeof nonce === 'string') session?.rememberNonce(url, nonce)
      },
    }),
    renew: (renewal) => renewals.renew({ ...renewal, serverUrl: url }),
    // Runs beside a renewal: the renewal may be waiting for the user whose callback this is.
    async finish(callback, edges) {
      const { finishAuthorization } = await import('./oauth-flow.ts')
      await finishAuthorization({ ...edges, provider, serverUrl: url }, callback)
    },
  }
}

/** Makes the headers of a token once, not for every request. */
function bearerCredentials(): (token: string | undefined) => Credential | undefined {
  let last: Credential | undefined
  return (token) => {
    if (token === undefined || token === last?.token) return token === undefined ? undefined : last
    if (/^[\x21-\x7E]+$/.test(token)) {
      return (last = { token, headers: ['authorization', `Bearer ${token}`] })
    }
    throw new TypeError('The token is empty, or holds characters that no header may hold')
  }
}

interface SharedRenewal extends Renewal {
  readonly serverUrl: URL
}

interface RenewalsOptions {
  /** The token in use. */
  readonly current: (refused: string | undefined) => Promise<string | undefined>
  /** Gets another token. `signal` aborts when no request waits any more. */
  readonly obtain: (renewal: SharedRenewal, signal: AbortSignal) => Promise<void>
}

interface Flight {
  readonly controller: AbortController
  readonly done: Promise<void>
  waiting: number
}

const RENEWALS = new WeakMap<AuthProvider, Renewals>()

/** Shared by all transports with this provider. */
function renewalsOf(provider: AuthProvider, options: RenewalsOptions): Renewals {
  const known = RENEWALS.get(provider) ?? new Renewals(options)
  RENEWALS.set(provider, known)
  return known
}

/**
 * Runs one renewal at a time for all requests with the same credential. Later requests wait for its outcome;
 * a request with an older token than the current one needs no renewal.
 */
export class Renewals {
  readonly #options: RenewalsOptions
  #flight: Flight | undefined

  constructor(options: RenewalsOptions) {
    this.#options = options
  }

  /**
   * Resolves when the current token is not the refused one.
   *
   * @throws what `obtain` threw; TransportError `CLOSED` once `signal` aborts.
   */
  async renew(renewal: SharedRenewal): Promise<void> {
    while (!(await this.#isReplaced(renewal))) {
      const isOwn = this.#flight === undefined
      const flight = (this.#flight ??= this.#start(renewal))
      try {
        await wait(flight, renewal.signal)
        if (isOwn) return
      } catch (error) {
        if (renewal.signal.aborted) throw error
        // Another process may have got a token, or `finish` may have completed an authorization.
        if (await this.#isReplaced(renewal)) return
        // The transport that started the renewal was closed: this request starts another one.
        const isClosed = TransportError.is(error) && error.code === 'CLOSED'
        if (isOwn || !isClosed) throw error
      }
    }
  }

  #start(renewal: SharedRenewal): Flight {
    const controller = new AbortController()
    const done = this.#options.obtain(renewal, controller.signal).finally(() => {
      this.#flight = undefined
    })
    done.catch(() => {}) // the requests that wait get the error
    return { controller, done, waiting: 0 }
  }

  async #isReplaced({ refused }: Renewal): Promise<boolean> {
    const current = await this.#options.current(refused)
    return current !== undefined && current !== refused
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
export type AuthAttempt = 'renew' | 'step-up' | 'nonce'

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
  next(status: number, challenge: Challenge | undefined): AuthAttempt | undefined {
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

  #authorize(attempt: AuthAttempt): AuthAttempt {
    this.#count += 1
    this.#isNonceUsed = false
    return attempt
  }
}
