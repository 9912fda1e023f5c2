import { GatewayError } from '../errors.ts'
import type { Principal } from './principal.ts'

/** The server that a token is for. */
export interface CredentialTarget {
  /** Name of the server, for messages. */
  readonly server: string
  /** Identifier of the server (RFC 8707), such as the URL of its MCP endpoint. */
  readonly resource: string
  /** Scopes that the token should have, of those of the target in `tokenExchange()`. @default all of them */
  readonly scopes?: readonly string[] | undefined
  /** Ends the wait, and not the exchange, for which others may wait too. */
  readonly signal?: AbortSignal | undefined
}

/** A token of one user, for one server. */
export interface UserToken {
  readonly accessToken: string
  /** Milliseconds since 1970. `undefined`: unknown. */
  readonly expiresAt?: number | undefined
}

/**
 * Gets tokens for other servers in the name of one caller. It holds the token of the caller, and shows it nowhere. Use it
 * during the call only: each call, and each answer to a question, brings credentials of its own.
 */
export interface UserCredentials {
  /**
   * Returns a token of the caller for a server. Tokens are cached until shortly before their end.
   *
   * @throws GatewayError with the `audience`: `TOKEN_EXPIRED`, `WRONG_AUDIENCE`, `EXCHANGE_REFUSED`, `UNAVAILABLE`; the reason of `signal`
   */
  token(target: CredentialTarget): Promise<UserToken>
  /** The server refused the token with 401: the next `token()` gets another one. */
  rejected(target: CredentialTarget & Pick<UserToken, 'accessToken'>): void
}

/** Makes the credentials of callers: `tokenExchange()`. */
export interface CredentialsProvider {
  /** Returns the credentials of a caller, from the token with which it was authenticated. */
  credentialsFor(principal: Principal, token: string): UserCredentials
}

/** Credentials are no part of a principal, because a principal is stored with its task, and given to agents. */
const ofPrincipals = new WeakMap<Principal, UserCredentials>()

/** Returns the principal of one request, which has these credentials. */
export function withCredentials(principal: Principal, credentials: UserCredentials): Principal {
  const ofRequest = { ...principal }
  giveCredentials(ofRequest, credentials)
  return ofRequest
}

/** Returns the credentials of the caller of a run. `undefined`: it has none, or gave them to another process. */
export function credentialsOf(principal: Principal): UserCredentials | undefined {
  return ofPrincipals.get(principal)
}

/** Gives credentials to a principal that was read from the store. */
export function giveCredentials(principal: Principal, credentials: UserCredentials): void {
  ofPrincipals.set(principal, credentials)
}

type Fetch = (input: string | URL | Request, init?: RequestInit) => Promise<Response>

/** How an agent at a server gets the tokens of users. */
export interface UserAccess {
  readonly target: CredentialTarget
  /** `undefined`: the call has none, and each request fails. */
  readonly credentials: UserCredentials | undefined
}

/**
 * Returns a `fetch` that sends requests in the name of a user. A request that the server refuses with 401 is sent once more,
 * with another token.
 *
 * @throws GatewayError `NO_USER` without credentials: no request is sent in the name of the gateway instead
 */
export function fetchForUser(fetch: Fetch, { credentials, target }: UserAccess): Fetch {
  return async (input, init) => {
    if (credentials === undefined) throw noUser(target.resource)
    const signal = init?.signal ?? (input instanceof Request ? input.signal : undefined)
    const send = async (): Promise<{ response: Response; accessToken: string }> => {
      const { accessToken } = await credentials.token({ ...target, ...(signal && { signal }) })
      const headers = new Headers(init?.headers ?? (input instanceof Request ? input.headers : {}))
      headers.set('authorization', `Bearer ${accessToken}`)
      const request = input instanceof Request ? input.clone() : input
      return { response: await fetch(request, { ...init, headers }), accessToken }
    }
    const { accessToken, response } = await send()
    // A stream can be sent once only.
    if (response.status !== 401 || init?.body instanceof ReadableStream) return response
    await response.body?.cancel()
    credentials.rejected({ ...target, accessToken })
    return (await send()).response
  }
}

function noUser(audience: string): GatewayError {
  const message = `No token for ${audience}: the call has no token of a user to exchange. Sign in and call again; answers to questions need the sign-in, too`
  return new GatewayError('NO_USER', message, { audience })
}
