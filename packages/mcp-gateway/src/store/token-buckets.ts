import type { Rate, Rates } from './gateway-store.ts'

/** More buckets than this are looked through for full ones, which say nothing. */
const MANY = 10_000

/** Token buckets of this process. */
export class TokenBuckets implements Rates {
  readonly #now: () => number
  readonly #buckets = new Map<string, Bucket>()
  #many = MANY

  constructor(now: () => number = Date.now) {
    this.#now = now
  }

  async take(bucket: string, rate: Rate): Promise<number> {
    const { perMinute, burst = perMinute } = rate
    const now = this.#now()
    const perMs = perMinute / 60_000
    const before = this.#buckets.get(bucket)
    const refilled = before ? before.tokens + Math.max(0, now - before.at) * perMs : burst
    const tokens = Math.min(burst, refilled)
    const isAllowed = tokens >= 1
    const left = isAllowed ? tokens - 1 : tokens
    this.#buckets.set(bucket, { tokens: left, at: now, fullAt: now + (burst - left) / perMs })
    if (this.#buckets.size > this.#many) this.#forgetFull(now)
    return isAllowed ? 0 : Math.max(1, Math.ceil((1 - tokens) / perMs))
  }

  #forgetFull(now: number): void {
    for (const [name, { fullAt }] of this.#buckets) if (fullAt <= now) this.#buckets.delete(name)
    // Twice what is left: looking through them costs each of them a constant.
    this.#many = Math.max(MANY, this.#buckets.size * 2)
  }
}

interface Bucket {
  readonly tokens: number
  readonly at: number
  readonly fullAt: number
}
