import type { AuthenticationRequest, Authenticator } from './auth/authenticator.ts'
import { isPrincipal, type Principal } from '../internal/principal.ts'
import type { GatewayObserver, RefusedRequest } from '../internal/observer.ts'
import type { HttpExchange } from '../internal/exchange.ts'
import type { RateLimits } from './rate-limits.ts'

export interface AdmissionOptions {
  /** @default everybody is let in, as `anonymous` */
  readonly auth?: Authenticator | undefined
  readonly anonymous: Principal
  /** How often callers may come. */
  readonly rates: RateLimits
  /** Of the MCP endpoint, as clients see it. */
  readonly publicUrl: (request: Request) => string
  /** Told of who is turned away. @default nobody */
  readonly observer?: Pick<GatewayObserver, 'requestRefused'> | undefined
}

/** Decides who may come in, for all that asks for a caller. */
export class Admission {
  readonly #options: AdmissionOptions

  constructor(options: AdmissionOptions) {
    this.#options = options
  }

  /** The caller, or the answer that refuses the request. */
  async admit(exchange: HttpExchange): Promise<Principal | Response> {
    const { anonymous, auth, rates } = this.#options
    const { address, request } = exchange
    const token = auth && request.headers.get('authorization')
    const refused = token ? rates.afterWrongTokens(address, token) : undefined
    const early = refused ?? (await rates.byAddress(address))
    if (early) return this.#refused(early, { reason: 'too_many', address })
    const who = auth ? await auth.authenticate(this.asked(request)) : anonymous
    if (!isPrincipal(who)) {
      const isWrong = who.status === 401 && token
      const tooMany = isWrong ? await rates.wrongToken(address) : undefined
      if (tooMany) return this.#refused(tooMany, { reason: 'too_many', address })
      return this.#refused(refusalFrom(who), { reason: reasonOf(who, request), address })
    }
    if (token) rates.accepted(token)
    const tooMany = await rates.byCaller(who, address)
    return tooMany
      ? this.#refused(tooMany, { reason: 'too_many', principal: who.id, address })
      : who
  }

  /** For further messages that came with a request: the answer that refuses all of it, or nothing. */
  async furtherRefusal(
    principal: Principal,
    address: string | undefined,
    count: number,
  ): Promise<Response | undefined> {
    const tooMany = await this.#options.rates.byCaller(principal, address, count)
    return (
      tooMany && this.#refused(tooMany, { reason: 'too_many', principal: principal.id, address })
    )
  }

  /** For whoever brings a credential of another kind: the answer that refuses the request, or nothing. */
  async refusal({ address }: HttpExchange): Promise<Response | undefined> {
    const tooMany = await this.#options.rates.byAddress(address)
    return tooMany && this.#refused(tooMany, { reason: 'too_many', address })
  }

  /** The request as authenticators see it. */
  asked(request: Request): AuthenticationRequest {
    const { method, headers } = request
    return { method, url: this.#options.publicUrl(request), headers }
  }

  #refused(response: Response, refusal: Omit<RefusedRequest, 'status'>): Response {
    this.#options.observer?.requestRefused?.({ ...refusal, status: response.status })
    return response
  }
}

/** Why an authenticator turned a request away, as far as its answer and the request tell. */
function reasonOf({ status }: Response, { headers }: Request): RefusedRequest['reason'] {
  if (status >= 500) return 'unavailable'
  if (status === 429) return 'too_many'
  return status === 401 && !headers.has('authorization') ? 'no_credential' : 'bad_credential'
}

/**
 * An authenticator may be anybody's: what is neither a caller nor an answer is the gateway's to report.
 *
 * @throws TypeError
 */
function refusalFrom(answer: Response): Response {
  if (typeof answer.status === 'number' && typeof answer.headers?.get === 'function') return answer
  throw new TypeError('An authenticator answers with a principal or a response')
}
