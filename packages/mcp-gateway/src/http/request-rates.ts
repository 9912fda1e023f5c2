import type { LimitSettings } from '../options.ts'
import { hash } from 'node:crypto'

import { BoundedMap } from '@x/internal'
import { type Principal, subnetOf } from '../internal/principal.ts'
import type { Rate, Rates } from '../store/gateway-store.ts'
import { RPC, rpcErrorResponse } from '../mcp/rpc-error.ts'

/** Limits of the rates of requests. */
export type RateSettings = Pick<
  LimitSettings,
  'requestsPerMinutePerPrincipal' | 'requestsPerMinutePerIp' | 'wrongTokensPerMinutePerIp'
>

/** Addresses that are remembered as refused. */
const MAX_REFUSED = 10_000

/** Accepted credentials that are remembered. */
const MAX_ACCEPTED = 10_000

export interface RequestRatesOptions extends RateSettings {
  /** Told when the store cannot count; requests go on then. */
  readonly onError: (error: Error) => void
}

/**
 * How often callers may come, counted in the store, for all processes together. Each method answers 429 with
 * `Retry-After`, or nothing where the request may go on. A store that cannot count refuses nobody: whoever breaks it
 * would otherwise shut out everybody.
 */
export class RequestRates {
  readonly #rates: Rates
  readonly #onError: (error: Error) => void
  readonly #names = new WeakMap<Principal, string>()
  #limits: RateSettings
  /** Addresses that sent too many wrong credentials: until when, by `performance.now()`. */
  readonly #refused: Map<string, number> = new BoundedMap(MAX_REFUSED)
  /** Digests: a credential is not kept. */
  readonly #accepted: Map<string, true> = new BoundedMap(MAX_ACCEPTED)

  constructor(rates: Rates, { onError, ...limits }: RequestRatesOptions) {
    this.#rates = rates
    this.#onError = onError
    this.#limits = limits
  }

  /** Other limits, from the next request on. */
  limit(limits: RateSettings): void {
    this.#limits = limits
  }

  /** Any request, before its credential is looked at. Without an address nothing is counted. */
  async byAddress(address: string | undefined): Promise<Response | undefined> {
    const { requestsPerMinutePerIp: perMinute } = this.#limits
    if (perMinute === 0 || address === undefined) return undefined
    return this.#take(`ip:${subnetOf(address)}`, { perMinute })
  }

  /** Remembers a credential that was accepted. Many callers may share an address with one who guesses. */
  accepted(credential: string): void {
    this.#accepted.set(digestOf(credential), true)
  }

  /** Refuses new credentials of an address that sent too many wrong ones, before the credential is looked at. */
  afterWrongTokens(address: string | undefined, credential: string): Response | undefined {
    if (this.#refused.size === 0 || address === undefined) return undefined
    if (this.#accepted.has(digestOf(credential))) return undefined
    const subnet = subnetOf(address)
    const waitMs = (this.#refused.get(subnet) ?? 0) - performance.now()
    if (waitMs > 0) return tooMany(waitMs)
    this.#refused.delete(subnet)
    return undefined
  }

  /** A credential was not accepted. @returns the answer in place of the authenticator's, if there were too many */
  async wrongToken(address: string | undefined): Promise<Response | undefined> {
    const { wrongTokensPerMinutePerIp: perMinute } = this.#limits
    if (perMinute === 0 || address === undefined) return undefined
    const subnet = subnetOf(address)
    const waitMs = await this.#waitFor(`wrong:${subnet}`, { perMinute })
    if (waitMs === 0) return undefined
    this.#refused.set(subnet, performance.now() + waitMs)
    return tooMany(waitMs)
  }

  /**
   * Requests of somebody who is known; all that are anonymous share one name, and are told apart by address.
   *
   * @param count of messages: a batch is as many requests. @default 1
   */
  async byCaller(
    principal: Principal,
    address: string | undefined,
    count = 1,
  ): Promise<Response | undefined> {
    const { requestsPerMinutePerPrincipal: perMinute } = this.#limits
    if (perMinute === 0 || (principal.isAnonymous && address === undefined)) return undefined
    const bucket = principal.isAnonymous
      ? `anonymous:${subnetOf(address ?? '')}`
      : `principal:${this.#nameOf(principal)}`
    for (let n = 0; n < count; n++) {
      const refusal = await this.#take(bucket, { perMinute })
      if (refusal) return refusal
    }
    return undefined
  }

  /** Without telling who it is. */
  #nameOf(principal: Principal): string {
    const known = this.#names.get(principal)
    if (known !== undefined) return known
    const name = hash('sha256', principal.id, 'base64url')
    this.#names.set(principal, name)
    return name
  }

  async #take(bucket: string, rate: Rate): Promise<Response | undefined> {
    const waitMs = await this.#waitFor(bucket, rate)
    return waitMs === 0 ? undefined : tooMany(waitMs)
  }

  async #waitFor(bucket: string, rate: Rate): Promise<number> {
    try {
      return await this.#rates.take(`requests:${bucket}`, rate)
    } catch (error) {
      this.#onError(new Error('Requests cannot be counted now', { cause: error }))
      return 0
    }
  }
}

function tooMany(waitMs: number): Response {
  const error = { code: RPC.refused, message: 'Too many requests' }
  return rpcErrorResponse(429, error, { 'retry-after': `${Math.ceil(waitMs / 1000)}` })
}

function digestOf(credential: string): string {
  return hash('sha256', credential, 'base64')
}
