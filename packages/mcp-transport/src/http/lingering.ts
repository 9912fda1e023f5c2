import { InFlight } from '../in-flight.ts'
import type { Linked } from '../in-flight.ts'
import type { Exchange } from './exchange.ts'
import { TransportError } from '../transport-error.ts'

const LINGER_MS = 5000

/**
 * Responses that go on although their answer has come. A server should end them at once (2025-11-25,
 * transports); one that does not would cost a connection per call, so they are cut after a while.
 */
export class Lingering {
  readonly #responses = new InFlight<LingeringResponse>()
  readonly #now: () => number
  #timer: NodeJS.Timeout | undefined

  constructor(now: () => number = monotonicMs) {
    this.#now = now
  }

  add(exchange: Exchange): void {
    this.#responses.add(new LingeringResponse(exchange, this.#now()))
    this.#timer ??= setTimeout(() => this.#sweep(), LINGER_MS).unref()
  }

  /** It has ended by itself. */
  remove(exchange: Exchange): void {
    const response = this.#responses.find((each) => each.exchange === exchange)
    if (response !== undefined) this.#responses.remove(response)
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
    if (!this.#responses.isEmpty) this.#timer = setTimeout(() => this.#sweep(), LINGER_MS).unref()
  }

  #cut(isDue: (since: number) => boolean): void {
    for (const response of this.#responses.all()) {
      if (!isDue(response.since) || !this.#responses.remove(response)) continue
      response.exchange.abort(new TransportError('CLOSED', 'The answer has come; the rest was cut'))
    }
  }
}

function monotonicMs(): number {
  return performance.now()
}

class LingeringResponse implements Linked<LingeringResponse> {
  readonly exchange: Exchange
  readonly since: number
  older: LingeringResponse | undefined
  newer: LingeringResponse | undefined

  constructor(exchange: Exchange, since: number) {
    this.exchange = exchange
    this.since = since
  }
}
