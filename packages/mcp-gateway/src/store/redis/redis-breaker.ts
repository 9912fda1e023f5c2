export interface RedisBreakerOptions {
  /** How long after a command that was not answered in time the next one may be sent. */
  readonly pauseMs: number
  /** Milliseconds, of whatever start. */
  readonly now: () => number
}

/**
 * Spares everybody but one at a time the wait for a Redis that hangs: a command that is not answered in time
 * stops those after it, until one that is let through is answered, or fails at once.
 */
export class RedisBreaker {
  readonly #options: RedisBreakerOptions
  /** `undefined`: it answers. `Infinity`: one asks now whether it does. */
  #askAt: number | undefined

  constructor(options: RedisBreakerOptions) {
    this.#options = options
  }

  /** Whether a command may be sent. After the pause that is one, which asks for all. */
  admits(): boolean {
    if (this.#askAt === undefined) return true
    if (this.#options.now() < this.#askAt) return false
    this.#askAt = Infinity
    return true
  }

  answered(): void {
    this.#askAt = undefined
  }

  /** Whoever fails at once makes nobody wait. Those that broke with the connection of a late one say nothing new. */
  failed(): void {
    if (this.#askAt === Infinity) this.#askAt = undefined
  }

  /** A command was not answered in time. Told before it fails. */
  late(): void {
    this.#askAt = this.#options.now() + this.#options.pauseMs
  }
}
