import { createHash } from 'node:crypto'

import type { Principal } from '../auth/principal.ts'
import type { GatewayStore, Rate } from '../store/gateway-store.ts'
import { RPC, rpcErrorResponse } from './rpc-error.ts'

export interface RequestRatesOptions {
  /** @default 600 */
  readonly requestsPerMinutePerPrincipal?: number | undefined
  /** Before anybody is known: attempts to guess a token count here too. @default 1200 */
  readonly requestsPerMinutePerIp?: number | undefined
  /** New sessions. @default 60 */
  readonly initializePerMinutePerIp?: number | undefined
  /** Told when the store cannot count; requests go on then. */
  readonly onError?: ((error: unknown) => void) | undefined
}

/**
 * How often callers may come, counted in the store, for all processes together. Each method answers 429 with
 * `Retry-After`, or nothing where the request may go on. A store that cannot count refuses nobody: whoever breaks it
 * would otherwise shut out everybody.
 */
export class RequestRates {
  readonly #store: Pick<GatewayStore, 'rates'>
  readonly #perPrincipal: Rate
  readonly #perIp: Rate
  readonly #initialize: Rate
  readonly #onError: (error: unknown) => void

  constructor(store: Pick<GatewayStore, 'rates'>, options: RequestRatesOptions = {}) {
    const { requestsPerMinutePerPrincipal = 600, requestsPerMinutePerIp = 1200 } = options
    const { initializePerMinutePerIp = 60, onError = () => undefined } = options
    this.#store = store
    this.#perPrincipal = { perMinute: requestsPerMinutePerPrincipal }
    this.#perIp = { perMinute: requestsPerMinutePerIp }
    this.#initialize = { perMinute: initializePerMinutePerIp }
    this.#onError = onError
  }

  /** Any request, before its credential is looked at. Without an address nothing is counted. */
  async byAddress(address: string | undefined): Promise<Response | undefined> {
    return address === undefined ? undefined : this.#take(`ip:${subnetOf(address)}`, this.#perIp)
  }

  /** A request of somebody who is known. All that are anonymous share one name, so that only addresses tell them apart. */
  async byPrincipal(principal: Principal): Promise<Response | undefined> {
    if (principal.isAnonymous) return undefined
    return this.#take(`principal:${digest(principal.id)}`, this.#perPrincipal)
  }

  /** A request that makes a session. */
  async byInitialize(address: string | undefined): Promise<Response | undefined> {
    if (address === undefined) return undefined
    return this.#take(`initialize:${subnetOf(address)}`, this.#initialize)
  }

  async #take(bucket: string, rate: Rate): Promise<Response | undefined> {
    try {
      const waitMs = await this.#store.rates.take(`requests:${bucket}`, rate)
      return waitMs === 0 ? undefined : tooMany(waitMs)
    } catch (error) {
      this.#onError(error)
      return undefined
    }
  }
}

function tooMany(waitMs: number): Response {
  const error = { code: RPC.refused, message: 'Too many requests' }
  return rpcErrorResponse(429, error, { 'retry-after': `${Math.ceil(waitMs / 1000)}` })
}

/** One customer has a whole /64 of IPv6, and could change address with each request. */
export function subnetOf(address: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1]
  if (mapped !== undefined || !address.includes(':')) return mapped ?? address
  const [head = '', tail] = (address.split('%')[0] ?? '').toLowerCase().split('::')
  const groups = head === '' ? [] : head.split(':')
  const behind = tail === undefined || tail === '' ? [] : tail.split(':')
  if (tail !== undefined) groups.push(...Array<string>(8 - groups.length - behind.length).fill('0'))
  const first = [...groups, ...behind].slice(0, 4)
  return `${first.map((group) => group.replace(/^0+(?=.)/, '')).join(':')}::/64`
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('base64url')
}
