import type { Exchange } from './exchange.ts'
import { TransportError } from '../transport-error.ts'

const LINGER_MS = 5000

/**
 * Responses that go on although their answer has come. A server should end them at once (2025-11-25,
 * transports); one that does not would cost a connection per call, so they are cut after a while.
 */
export class Lingering {
  readonly #since = new Map<Exchange, number>()
  readonly #now: () => number
  #timer: NodeJS.Timeout | undefined

  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  add(exchange: Exchange): void {
    this.#since.set(exchange, this.#now())
    this.#timer ??= setTimeout(() => this.#sweep(), LINGER_MS).unref()
  }

  /** It has ended by itself. */
  remove(exchange: Exchange): void {
    this.#since.delete(exchange)
  }

  close(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#cut(() => true)
  }

  #sweep(): void {
    this.#timer = undefined
    const before = this.#now() - LINGER_MS
    this.#cut((since) => since <= before)
    if (this.#since.size > 0) this.#timer = setTimeout(() => this.#sweep(), LINGER_MS).unref()
  }

  #cut(isDue: (since: number) => boolean): void {
    for (const [exchange, since] of this.#since) {
      if (!isDue(since)) continue
      this.#since.delete(exchange)
      exchange.abort(new TransportError('CLOSED', 'The answer has come; the rest was cut'))
    }
  }
}
