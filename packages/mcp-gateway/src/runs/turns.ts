import type { Clock } from '../internal/clock.ts'

export interface TurnOptions {
  readonly signal: AbortSignal
  /** How long to wait for it. */
  readonly timeoutMs: number
}

/** One at a time for each key, in the order in which they came, within this process. */
export class Turns {
  readonly #clock: Clock
  readonly #last = new Map<string, Promise<void>>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /**
   * @returns what gives the turn back, once; `undefined`: it took too long
   * @throws the reason of the signal
   */
  async take(key: string, options: TurnOptions): Promise<(() => void) | undefined> {
    const before = this.#last.get(key)
    let leave = nothing
    const left = new Promise<void>((resolve) => {
      leave = resolve
    })
    // Who gives up is over as soon as those are that came before.
    const over = Promise.all([before, left]).then(nothing)
    this.#last.set(key, over)
    void this.#forgetAfter(key, over)
    if (before === undefined) return leave
    try {
      if (await this.#wait(before, options)) return leave
    } catch (error) {
      leave()
      throw error
    }
    leave()
    return undefined
  }

  async #forgetAfter(key: string, over: Promise<void>): Promise<void> {
    await over
    if (this.#last.get(key) === over) this.#last.delete(key)
  }

  #wait(before: Promise<void>, { signal, timeoutMs }: TurnOptions): Promise<boolean> {
    return new Promise((resolve, reject) => {
      const settle = (end: () => void): void => {
        undo()
        signal.removeEventListener('abort', onAbort)
        end()
      }
      const onAbort = (): void => settle(() => reject(signal.reason))
      const undo = this.#clock.after(timeoutMs, () => settle(() => resolve(false)))
      signal.addEventListener('abort', onAbort)
      if (signal.aborted) onAbort()
      void before.then(() => settle(() => resolve(true)))
    })
  }
}

function nothing(): void {}
