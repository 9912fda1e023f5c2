import type { Rate, Rates } from '../gateway-store.ts'
import { TokenBuckets } from '../token-buckets.ts'
import type { RedisCommands } from './redis-commands.ts'
import type { RedisKeys } from './redis-keys.ts'
import { numberFrom } from './redis-reply.ts'
import { TAKE_TOKEN } from './redis-scripts.ts'

export interface RedisRatesOptions {
  readonly commands: RedisCommands
  readonly keys: RedisKeys
  readonly now: () => number
  /** Once for each time that Redis goes away. */
  readonly onWarning: (error: unknown) => void
}

/** Token buckets of all processes; while Redis is away, each process goes on with its own. */
export class RedisRates implements Rates {
  readonly #options: RedisRatesOptions
  readonly #local: TokenBuckets
  #isAway = false

  constructor(options: RedisRatesOptions) {
    this.#options = options
    this.#local = new TokenBuckets(options.now)
  }

  async take(bucket: string, rate: Rate): Promise<number> {
    const { commands, keys, onWarning } = this.#options
    const { perMinute, burst = perMinute } = rate
    try {
      const args = [String(perMinute / 60_000), String(burst)]
      const wait = numberFrom(await commands.run(TAKE_TOKEN, [keys.bucket(bucket)], args))
      this.#isAway = false
      return wait
    } catch (error) {
      if (!this.#isAway) onWarning(error)
      this.#isAway = true
      return this.#local.take(bucket, rate)
    }
  }
}
