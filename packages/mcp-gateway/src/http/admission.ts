import type { AuthenticationRequest, Authenticator } from '../auth/authenticator.ts'
import { isPrincipal, type Principal } from '../auth/principal.ts'
import type { HttpExchange } from './exchange.ts'
import type { RequestRates } from './request-rates.ts'

export interface AdmissionOptions {
  /** @default everybody is let in, as `anonymous` */
  readonly auth?: Authenticator | undefined
  readonly anonymous: Principal
  /** How often callers may come. */
  readonly rates: RequestRates
  /** Of the MCP endpoint, as clients see it. */
  readonly publicUrl: (request: Request) => string
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
    const early = await rates.byAddress(address)
    if (early) return early
    const who = auth ? await auth.authenticate(this.asked(request)) : anonymous
    if (!isPrincipal(who)) return refusalFrom(who)
    return (await rates.byCaller(who, address)) ?? who
  }

  /** For further messages that came with a request: the answer that refuses all of it, or nothing. */
  furtherRefusal(
    principal: Principal,
    address: string | undefined,
    count: number,
  ): Promise<Response | undefined> {
    return this.#options.rates.byCaller(principal, address, count)
  }

  /** For whoever brings a credential of another kind: the answer that refuses the request, or nothing. */
  refusal({ address }: HttpExchange): Promise<Response | undefined> {
    return this.#options.rates.byAddress(address)
  }

  /** The request as authenticators see it. */
  asked(request: Request): AuthenticationRequest {
    const { method, headers } = request
    return { method, url: this.#options.publicUrl(request), headers }
  }
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
