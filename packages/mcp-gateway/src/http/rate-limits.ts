import { hash } from 'node:crypto'
import { isIP } from 'node:net'

import { BoundedMap } from '@x/internal'
import { accountOf, subnetOf, type Principal } from '../internal/principal.ts'
import { tryLater, type Reply, type RequestHeaders } from '../mcp/reply.ts'
import type { Rates } from '../store/gateway-store.ts'

/** Wrong credentials of one network per minute, if callers have no limit. It slows down attempts to guess a token. */
const MAX_WRONG = 600

/** Number of networks and of credentials that are remembered. */
const MAX_KEPT = 10_000

/**
 * Limits how often callers may send requests. The store counts for all processes together. Each method returns 429 with
 * `Retry-After`, or `undefined` if the request may go on. While the store cannot count, no request is refused: who
 * breaks the store must not lock out everyone.
 */
export class RateLimits {
  readonly #rates: Rates
  readonly #perMinute: number
  readonly #onError: (error: Error) => void
  /** Networks that sent too many wrong credentials, with the end of their penalty (`performance.now()`). */
  readonly #refused: Map<string, number> = new BoundedMap(MAX_KEPT)
  /** Digests of accepted credentials. */
  readonly #accepted: Map<string, true> = new BoundedMap(MAX_KEPT)
  /** Buckets of callers. Requests with one credential often share the object of their principal. */
  readonly #buckets = new WeakMap<Principal, string>()

  /**
   * @param perMinute requests of one caller; of one network for callers without a name. 0: no limit
   * @param onError receives failures of the store. The requests are served all the same
   */
  constructor(rates: Rates, perMinute: number, onError: (error: Error) => void) {
    this.#rates = rates
    this.#perMinute = perMinute
    this.#onError = onError
  }

  /** Counts a request of a known caller. Callers without a name share the limit of their network. */
  async byCaller(principal: Principal, address: string | undefined): Promise<Reply | undefined> {
    if (principal.isAnonymous) return this.byNetwork(address)
    if (this.#perMinute === 0) return undefined
    const bucket = this.#buckets.get(principal) ?? bucketOf(accountOf({ principal }))
    this.#buckets.set(principal, bucket)
    const waitMs = await this.#take(bucket, this.#perMinute)
    return waitMs === 0 ? undefined : tooMany(waitMs)
  }

  /** Counts a request of a caller that has no name, such as the holder of a link. Without an address, it is not counted. */
  async byNetwork(
    address: string | undefined,
    perMinute: number = this.#perMinute,
  ): Promise<Reply | undefined> {
    if (address === undefined) return undefined
    const subnet = subnetOf(address)
    const waitMs = await this.#take(bucketOf(`address\0${subnet}`), perMinute)
    if (waitMs === 0) return undefined
    this.#refused.set(subnet, performance.now() + waitMs)
    return tooMany(waitMs)
  }

  /** Counts a wrong credential like a request of a caller without a name. */
  wrongCredential(address: string | undefined): Promise<Reply | undefined> {
    return this.byNetwork(address, this.#perMinute || MAX_WRONG)
  }

  /** Remembers a credential that was accepted: a caller may share its network with an attacker. */
  accepted(credential: string): void {
    this.#accepted.set(digestOf(credential), true)
  }

  /** Refuses a new credential from a network that sent too many wrong ones, before the credential is checked. */
  beforeCheck(address: string | undefined, credential: string): Reply | undefined {
    if (this.#refused.size === 0 || address === undefined) return undefined
    if (this.#accepted.has(digestOf(credential))) return undefined
    const subnet = subnetOf(address)
    const waitMs = (this.#refused.get(subnet) ?? 0) - performance.now()
    if (waitMs > 0) return tooMany(waitMs)
    this.#refused.delete(subnet)
    return undefined
  }

  /** Returns the milliseconds until a request may be sent. 0: it may be sent now. */
  async #take(bucket: string, perMinute: number): Promise<number> {
    if (perMinute === 0) return 0
    try {
      return await this.#rates.take(bucket, perMinute)
    } catch (error) {
      this.#onError(new Error('The store cannot count requests', { cause: error }))
      return 0
    }
  }
}

/** Returns the name of a bucket, which does not show its account. */
function bucketOf(account: string): string {
  return `requests:${digestOf(account)}`
}

function digestOf(text: string): string {
  return hash('sha256', text, 'base64url')
}

function tooMany(waitMs: number): Reply {
  return tryLater(429, 'Too many requests', waitMs)
}

/** Address of all clients whose address is not known: they share one limit. */
const UNKNOWN = 'unknown'

/** Returns the address that the outermost of so many proxies has written. Entries before it are written by the client. */
export function forwardedAddress(headers: Pick<RequestHeaders, 'get'>, proxies: number): string {
  return addressFrom(headers.get('x-forwarded-for')?.split(',').at(-proxies))
}

/** Returns an address as it is counted. */
export function addressFrom(text: string | undefined): string {
  const address = withoutPort(text?.trim() ?? '')
  return isIP(address) === 0 ? UNKNOWN : address
}

/** Some proxies write `192.0.2.1:443` and `[2001:db8::1]:443`. */
function withoutPort(text: string): string {
  return /^\[([^\]]+)\](?::\d+)?$/.exec(text)?.[1] ?? /^([\d.]+):\d+$/.exec(text)?.[1] ?? text
}
