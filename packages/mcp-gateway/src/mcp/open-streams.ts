import type { Clock } from '../internal/clock.ts'
import type { EventStream } from './event-stream.ts'
import { accountOf, type Caller } from '../internal/principal.ts'

/** Streams of one address: an office behind one address has many clients, and an attacker has few addresses. */
export const STREAMS_PER_ADDRESS = 64

/** Time between two comments on a silent stream. Proxies close streams that are silent for 30 to 60 s. */
const KEEP_ALIVE_MS = 15_000

/** The streams of events that are open in this process: their number, and the timer that keeps them open. */
export class OpenStreams {
  readonly #perPrincipal: number
  readonly #perAddress: number
  readonly #clock: Clock
  readonly #listening = new Map<string, number>()
  readonly #streams = new Set<EventStream>()
  #stopTimer: (() => void) | undefined

  /**
   * @param perPrincipal streams of one verified caller
   * @param perAddress streams of one address, for callers that are not verified
   */
  constructor(perPrincipal: number, perAddress: number, clock: Clock) {
    this.#perPrincipal = perPrincipal
    this.#perAddress = perAddress
    this.#clock = clock
  }

  /**
   * Counts a stream on which a caller waits for changes. Anonymous callers share one principal, so they are counted by
   * address. Callers without a known address have no limit.
   *
   * @returns a function to call at the end of the stream; `undefined` if the caller has too many streams
   */
  enter(caller: Caller): (() => void) | undefined {
    const { isAnonymous } = caller.principal
    if (isAnonymous && caller.address === undefined) return () => undefined
    return this.#take(accountOf(caller), isAnonymous ? this.#perAddress : this.#perPrincipal)
  }

  keepOpen(stream: EventStream): void {
    this.#streams.add(stream)
    stream.onClose(() => this.#streams.delete(stream))
    this.#stopTimer ??= this.#writeLater()
  }

  close(): void {
    for (const stream of this.#streams) stream.end()
    this.#stopTimer?.()
  }

  #take(name: string, limit: number): (() => void) | undefined {
    const open = this.#listening.get(name) ?? 0
    if (open >= limit) return undefined
    this.#listening.set(name, open + 1)
    return () => {
      const left = (this.#listening.get(name) ?? 1) - 1
      if (left > 0) this.#listening.set(name, left)
      else this.#listening.delete(name)
    }
  }

  #writeLater(): () => void {
    return this.#clock.after(KEEP_ALIVE_MS, () => {
      for (const stream of this.#streams) stream.write(': keepalive\n\n')
      this.#stopTimer = this.#streams.size > 0 ? this.#writeLater() : undefined
    })
  }
}
