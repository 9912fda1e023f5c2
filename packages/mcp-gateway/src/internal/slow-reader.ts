import { systemClock, type Clock } from './clock.ts'

/** What may wait for the reader of a stream of events. */
export const WAITING_BYTES = 1_048_576
/** How long more may wait: an answer or a replay is long at once, and read in time. */
const SLOW_MS = 30_000

export interface SlowReaderOptions {
  /** Bytes that wait for it now. */
  readonly waiting: () => number
  /** It is too slow: called once, and what waits is to be let go. */
  readonly onSlow: () => void
  /** @default systemClock */
  readonly clock?: Clock | undefined
}

/**
 * Watches that who reads a stream of events keeps up with it. Events come whether they are read or not: without
 * an end to it, one client that stops reading could fill the memory.
 */
export class SlowReader {
  readonly #options: SlowReaderOptions
  #stop: (() => void) | undefined

  constructor(options: SlowReaderOptions) {
    this.#options = options
  }

  /** Another event waits. */
  wrote(): void {
    const { waiting, onSlow, clock = systemClock } = this.#options
    if (this.#stop || waiting() <= WAITING_BYTES) return
    this.#stop = clock.after(SLOW_MS, () => {
      this.#stop = undefined
      if (waiting() > WAITING_BYTES) onSlow()
    })
  }

  /** The stream has ended. */
  end(): void {
    this.#stop?.()
    this.#stop = undefined
  }
}
