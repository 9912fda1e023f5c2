import { settledOrAborted } from '../settled-or-aborted.ts'

/** How many calls go out at once while nothing says that the session lives. */
const FIRST_CALLS = 64
/** How long the others wait for a sign, in milliseconds. */
const HOLD_MS = 200

/**
 * Lets a burst of calls find out with its first 64 whether the session still lives. The others are held
 * back until one of those has ended, so that a lost session costs 64 refusals and a handshake, and not
 * that every call is sent, refused and sent again. A call that is held was not sent: when the session
 * turns out to be lost, it goes out in the next one, as if nothing had been.
 *
 * It is no limit on how much may run at once: slow calls all run, the 65th of a burst at most 200 ms later
 * than it might. Once open it stays open until nothing is in flight: calls that follow each other, however
 * many, never wait.
 */
export class BurstGate {
  #isOpen = true
  #held: Held | undefined

  /** Whether one more call must wait, with so many of the session in flight. */
  holds(inFlight: number): boolean {
    return !this.#isOpen && inFlight >= FIRST_CALLS
  }

  /**
   * Waits until it opens. Not to be asked again for the same call, so that the limit holds.
   *
   * @throws the reason of `signal`
   */
  opened(signal: AbortSignal): Promise<void> {
    this.#held ??= new Held(() => this.open())
    return settledOrAborted(this.#held.released, signal)
  }

  /** A call has ended, however it did: what is held need not wait for another one. */
  open(): void {
    this.#isOpen = true
    this.#held?.release()
    this.#held = undefined
  }

  /** Nothing is in flight: from now on it is not known any more whether the session lives. */
  close(): void {
    this.#isOpen = false
  }
}

/** The calls that wait, and the timer that ends it. */
class Held {
  readonly released: Promise<void>
  #release: () => void = () => {}
  readonly #timer: NodeJS.Timeout
  #immediate: NodeJS.Immediate | undefined

  constructor(onTimeUp: () => void) {
    this.released = new Promise((resolve) => (this.#release = resolve))
    this.#timer = setTimeout(() => {
      // Answers that came while this thread was busy are read before.
      this.#immediate = setImmediate(onTimeUp)
    }, HOLD_MS).unref()
  }

  release(): void {
    clearTimeout(this.#timer)
    clearImmediate(this.#immediate)
    this.#release()
  }
}
