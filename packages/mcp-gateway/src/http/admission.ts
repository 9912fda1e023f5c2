import { validateHostHeader, validateOriginHeader } from '@modelcontextprotocol/server'

import type { GatewayObserver, RefusedRequest } from '../internal/observer.ts'
import { isPrincipal, type Principal } from '../internal/principal.ts'
import { withCredentials, type CredentialsProvider } from '../internal/user-credentials.ts'
import { isHostName, isOrigin } from '../internal/setting-kinds.ts'
import { shortened } from '../internal/text.ts'
import { RPC_ERROR } from '../mcp/json-rpc.ts'
import {
  refused,
  toReply,
  type HttpExchange,
  type Reply,
  type RequestHeaders,
} from '../mcp/reply.ts'
import { parseBearerToken } from './auth/authenticator.ts'
import type { AuthenticationRequest, Authenticator } from './auth/authenticator.ts'
import type { RateLimits } from './rate-limits.ts'

export interface AdmissionOptions {
  /** Host names, without port, that requests may be addressed to. */
  readonly hosts: readonly string[] | 'any'
  /** Origins of web pages that may call, as browsers send them (`https://app.example`). */
  readonly origins: readonly string[]
  /** `undefined`: every caller is `anonymous`. */
  readonly auth: Authenticator | undefined
  /** Makes the credentials of callers from their tokens. `undefined`: they have none. */
  readonly credentials: CredentialsProvider | undefined
  readonly anonymous: Principal
  readonly rates: RateLimits
  /** URL of the MCP endpoint as clients see it. `undefined`: the URL of each request. */
  readonly endpoint: string | undefined
  /** Receives refused requests. */
  readonly observer: Pick<Required<GatewayObserver>, 'requestRefused'>
}

/** Host names that reach this machine from itself only. */
export const LOOPBACK_NAMES: readonly string[] = ['localhost', '127.0.0.1', '[::1]']

const EXPOSED_HEADERS = 'mcp-session-id, www-authenticate, retry-after'

/** Decides which requests are served: by their Host and Origin, their credential and the rates of their caller. */
export class Admission {
  readonly #options: AdmissionOptions
  readonly #hosts: string[] | undefined
  readonly #origins: ReadonlySet<string>
  readonly #hasLoopbackPages: boolean

  constructor(options: AdmissionOptions) {
    const { hosts, origins } = options
    this.#options = options
    this.#hosts = hosts === 'any' ? undefined : [...hosts]
    this.#origins = new Set(origins)
    this.#hasLoopbackPages = this.#hosts?.every((host) => LOOPBACK_NAMES.includes(host)) ?? false
  }

  /**
   * Refuses requests that a web page made a browser send: to a name that is not ours (DNS rebinding), or from a page that
   * is not listed (specification 2026-07-28, "Transports", security). Answers a browser that asks whether a listed page
   * may call. A request without `Host` was made in this process or came by HTTP/2: its URL names the host.
   *
   * @param anyOrigin true for a route that checks the Origin itself. @default false
   */
  checkOrigin(
    { address, headers, method, url }: HttpExchange,
    { anyOrigin = false }: { readonly anyOrigin?: boolean } = {},
  ): Reply | undefined {
    const host = headers.get('host') ?? new URL(url).host
    const origin = headers.get('origin')
    let message: string | undefined
    if (this.#hosts && !validateHostHeader(host, this.#hosts).ok) {
      message = wrongHost(host)
    } else if (!anyOrigin && origin !== null && !this.#isAllowed(origin)) {
      message = wrongOrigin(origin)
    }
    if (message !== undefined) {
      return this.#report(refused(403, RPC_ERROR.refused, message), { reason: 'origin', address })
    }
    if (method !== 'OPTIONS' || origin === null || !this.#origins.has(origin)) return undefined
    return {
      status: 204,
      headers: {
        'access-control-allow-origin': origin,
        'access-control-allow-methods': 'GET, POST, PUT, DELETE',
        'access-control-allow-headers':
          headers.get('access-control-request-headers') ?? 'content-type',
        'access-control-max-age': '600',
        vary: 'Origin',
      },
    }
  }

  /** Lets a listed page read the reply. */
  allowOrigin({ headers }: HttpExchange, reply: Reply): Reply {
    const origin = headers.get('origin')
    if (origin === null || !this.#origins.has(origin)) return reply
    const allowed = {
      'access-control-allow-origin': origin,
      'access-control-expose-headers': EXPOSED_HEADERS,
      vary: 'Origin',
    }
    return { ...reply, headers: { ...reply.headers, ...allowed } }
  }

  /** Returns the caller, or the reply that refuses the request. */
  async admit(exchange: HttpExchange): Promise<Principal | Reply> {
    const { anonymous, auth, credentials, rates } = this.#options
    const { address, headers } = exchange
    const token = auth && headers.get('authorization')
    const early = token ? rates.beforeCheck(address, token) : undefined
    if (early) return this.#report(early, { reason: 'too_many', address })
    const given = auth ? await auth.authenticate(this.asked(exchange)) : anonymous
    if (!isPrincipal(given)) {
      const isWrong = given.status === 401 && token
      const tooMany = isWrong ? await rates.wrongCredential(address) : undefined
      if (tooMany) return this.#report(tooMany, { reason: 'too_many', address })
      return this.#report(toRefusal(given), { reason: reasonOf(given, headers), address })
    }
    const { claims }: Partial<Principal> = given // code of a user may leave them out
    const who = claims === undefined ? { ...given, claims: {} } : given
    if (token) rates.accepted(token)
    const tooMany = await rates.byCaller(who, address)
    if (tooMany) {
      return this.#report(tooMany, { reason: 'too_many', principal: who.id, address })
    }
    if (!credentials || who.isAnonymous) return who
    const read = parseBearerToken(headers)
    if (typeof read === 'string') return who
    return withCredentials(who, credentials.credentialsFor(who, read.token))
  }

  /** Counts a request with a credential that `auth` does not know, such as a signed link. */
  async countAddress({ address }: HttpExchange): Promise<Reply | undefined> {
    const tooMany = await this.#options.rates.byNetwork(address)
    return tooMany && this.#report(tooMany, { reason: 'too_many', address })
  }

  /** Returns the request as authenticators see it. */
  asked({ headers, method, url }: HttpExchange): AuthenticationRequest {
    return { method, url: this.#options.endpoint ?? url.split('?', 1)[0] ?? url, headers }
  }

  #isAllowed(origin: string): boolean {
    if (this.#origins.has(origin)) return true
    return this.#hasLoopbackPages && validateOriginHeader(origin, [...LOOPBACK_NAMES]).ok
  }

  #report(reply: Reply, refusal: Omit<RefusedRequest, 'status'>): Reply {
    this.#options.observer.requestRefused({ ...refusal, status: reply.status })
    return reply
  }
}

/** Longest part of a header in a message. */
const MAX_SHOWN = 200

/** Returns a value of a header for a message. */
function shownHeader(value: string): string {
  return JSON.stringify(shortened(value.replaceAll(/[^\x20-\x7e]/g, '?'), MAX_SHOWN))
}

function wrongHost(host: string): string {
  if (host === '')
    return 'The request has no Host header, and the gateway answers to its names only'
  const { hostname = '' } = URL.parse(`http://${host}`) ?? {}
  const name = isHostName(hostname) ? shownHeader(hostname) : 'the name'
  return `The Host ${shownHeader(host)} is not a name of this gateway. If it should be one, add ${name} to http.allowedHosts, or set http.publicUrl to the URL that clients use`
}

function wrongOrigin(origin: string): string {
  if (origin === 'null') {
    return 'Pages without an origin (Origin: null), such as files and sandboxed frames, may not call this gateway. Serve the page over https'
  }
  const shown = shownHeader(origin)
  const own = isOrigin(origin) ? shown : 'the origin of the page, such as https://app.example,'
  return `Pages of ${shown} may not call this gateway. If they should, add ${own} to http.allowedOrigins`
}

/** Returns the reason for which an authenticator refused a request, as far as its response shows it. */
function reasonOf(
  { status }: Response,
  headers: Pick<RequestHeaders, 'has'>,
): RefusedRequest['reason'] {
  if (status >= 500) return 'unavailable'
  if (status === 429) return 'too_many'
  return status === 401 && !headers.has('authorization') ? 'no_credential' : 'bad_credential'
}

/**
 * Checks the result of an authenticator, which may be code of a user.
 *
 * @throws TypeError
 */
function toRefusal(result: Response): Reply {
  if (typeof result.status === 'number' && typeof result.headers?.get === 'function') {
    return toReply(result)
  }
  throw new TypeError('authenticate() must return a principal or a response')
}
