import type { Rates } from './gateway-store.ts'

/** Above this number, full buckets are dropped. A new bucket is full, too. */
const MANY = 10_000

/** Token buckets of this process. */
export class TokenBuckets implements Rates {
  readonly #now: () => number
  readonly #buckets = new Map<string, { tokens: number; at: number; fullAt: number }>()
  #many = MANY

  constructor(now: () => number = Date.now) {
    this.#now = now
  }

  async take(bucket: string, perMinute: number): Promise<number> {
    const now = this.#now()
    const perMs = perMinute / 60_000
    const before = this.#buckets.get(bucket)
    const refilled = before ? before.tokens + Math.max(0, now - before.at) * perMs : perMinute
    const tokens = Math.min(perMinute, refilled)
    const isAllowed = tokens >= 1
    const left = isAllowed ? tokens - 1 : tokens
    this.#buckets.set(bucket, { tokens: left, at: now, fullAt: now + (perMinute - left) / perMs })
    if (this.#buckets.size > this.#many) this.#dropFull(now)
    return isAllowed ? 0 : Math.max(1, Math.ceil((1 - tokens) / perMs))
  }

  #dropFull(now: number): void {
    for (const [name, { fullAt }] of this.#buckets) if (fullAt <= now) this.#buckets.delete(name)
    // Twice the number that is left, so that the cost of a search is constant for each bucket.
    this.#many = Math.max(MANY, this.#buckets.size * 2)
  }
}
