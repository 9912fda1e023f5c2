import { hash } from 'node:crypto'
import { isIP } from 'node:net'

import { BoundedMap } from '@x/internal'
import { subnetOf, type Principal } from '../internal/principal.ts'
import { tryLater, type HttpExchange, type Reply } from '../mcp/reply.ts'
import type { ClientAddress, LimitSettings } from '../options.ts'
import type { Rates } from '../store/gateway-store.ts'

/** Numbers of requests per minute. 0: no limit. */
export type RateSettings = Pick<
  LimitSettings,
  'requestsPerMinutePerPrincipal' | 'requestsPerMinutePerIp' | 'wrongTokensPerMinutePerIp'
>

/** Number of refused addresses that are remembered. */
const MAX_REFUSED = 10_000

/** Number of accepted credentials that are remembered. */
const MAX_ACCEPTED = 10_000

export interface RateLimitsOptions extends RateSettings {
  /** Receives failures of the store. The requests are served all the same. */
  readonly onError: (error: Error) => void
}

/**
 * Limits how often callers may send requests. The store counts for all processes together. Each method returns 429 with
 * `Retry-After`, or `undefined` if the request may go on. While the store cannot count, no request is refused: who
 * breaks the store must not lock out everyone.
 */
export class RateLimits {
  readonly #rates: Rates
  readonly #onError: (error: Error) => void
  /** Names of buckets. A bucket does not show who its principal is. */
  readonly #names = new WeakMap<Principal, string>()
  readonly #limits: RateSettings
  /** Subnets that sent too many wrong credentials, with the end of their penalty (`performance.now()`). */
  readonly #refused: Map<string, number> = new BoundedMap(MAX_REFUSED)
  /** Digests of accepted credentials. */
  readonly #accepted: Map<string, true> = new BoundedMap(MAX_ACCEPTED)

  constructor(rates: Rates, { onError, ...limits }: RateLimitsOptions) {
    this.#rates = rates
    this.#onError = onError
    this.#limits = limits
  }

  /** Counts a request before its credential is checked. Requests without an address are not counted. */
  async byAddress(address: string | undefined): Promise<Reply | undefined> {
    const { requestsPerMinutePerIp: perMinute } = this.#limits
    if (perMinute === 0 || address === undefined) return undefined
    const waitMs = await this.#take(`ip:${subnetOf(address)}`, perMinute)
    return waitMs === 0 ? undefined : tooMany(waitMs)
  }

  /** Remembers a credential that was accepted: a caller may share its address with an attacker. */
  accepted(credential: string): void {
    this.#accepted.set(hash('sha256', credential, 'base64'), true)
  }

  /** Refuses new credentials from an address that sent too many wrong ones, before the credential is checked. */
  afterWrongTokens(address: string | undefined, credential: string): Reply | undefined {
    if (this.#refused.size === 0 || address === undefined) return undefined
    if (this.#accepted.has(hash('sha256', credential, 'base64'))) return undefined
    const subnet = subnetOf(address)
    const waitMs = (this.#refused.get(subnet) ?? 0) - performance.now()
    if (waitMs > 0) return tooMany(waitMs)
    this.#refused.delete(subnet)
    return undefined
  }

  /** Counts a wrong credential. */
  async wrongToken(address: string | undefined): Promise<Reply | undefined> {
    const { wrongTokensPerMinutePerIp: perMinute } = this.#limits
    if (perMinute === 0 || address === undefined) return undefined
    const subnet = subnetOf(address)
    const waitMs = await this.#take(`wrong:${subnet}`, perMinute)
    if (waitMs === 0) return undefined
    this.#refused.set(subnet, performance.now() + waitMs)
    return tooMany(waitMs)
  }

  /** Counts a request of a known caller. Anonymous callers share one principal, so they are counted by address. */
  async byCaller(principal: Principal, address: string | undefined): Promise<Reply | undefined> {
    const { requestsPerMinutePerPrincipal: perMinute } = this.#limits
    if (perMinute === 0 || (principal.isAnonymous && address === undefined)) return undefined
    const bucket = principal.isAnonymous
      ? `anonymous:${subnetOf(address ?? '')}`
      : `principal:${this.#nameOf(principal)}`
    const waitMs = await this.#take(bucket, perMinute)
    return waitMs > 0 ? tooMany(waitMs) : undefined
  }

  #nameOf(principal: Principal): string {
    const known = this.#names.get(principal)
    if (known !== undefined) return known
    const name = hash('sha256', principal.id, 'base64url')
    this.#names.set(principal, name)
    return name
  }

  /** Returns the milliseconds until a request may be sent. 0: it may be sent now. */
  async #take(bucket: string, perMinute: number): Promise<number> {
    try {
      return await this.#rates.take(`requests:${bucket}`, { perMinute })
    } catch (error) {
      this.#onError(new Error('The store cannot count requests', { cause: error }))
      return 0
    }
  }
}

function tooMany(waitMs: number): Reply {
  return tryLater(429, 'Too many requests', waitMs)
}

/** Address of all clients whose address is not known: they share one limit. */
const UNKNOWN = 'unknown'

/**
 * Returns the address of a client as the setting `http.clientAddress` determines it.
 *
 * @param context further arguments of the application that calls `gateway.fetch()`
 * @throws what the function of the setting throws
 */
export function clientAddressOf(
  setting: ClientAddress,
  exchange: Pick<HttpExchange, 'headers' | 'request'>,
  context?: unknown,
): string {
  const found =
    typeof setting === 'function'
      ? setting(exchange.request, context)
      : exchange.headers
          .get(setting.header)
          ?.split(',')
          .at(-(setting.proxies ?? 1))
  const address = withoutPort(found?.trim() ?? '')
  return isIP(address) === 0 ? UNKNOWN : address
}

/** Some proxies write `192.0.2.1:443` and `[2001:db8::1]:443`. */
function withoutPort(text: string): string {
  return /^\[([^\]]+)\](?::\d+)?$/.exec(text)?.[1] ?? /^([\d.]+):\d+$/.exec(text)?.[1] ?? text
}
