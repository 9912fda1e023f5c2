import type { Clock } from './clock.ts'

export interface SweeperOptions {
  readonly clock: Clock
  /** From the end of one to the next, in milliseconds. */
  readonly everyMs: number
  readonly sweep: () => Promise<void>
  /** Told of one that failed; there is a next one all the same. @default ignored */
  readonly onError?: ((error: unknown) => void) | undefined
}

/** Looks again and again for what has ended, and never twice at the same time. Begins at once to wait. */
export class Sweeper {
  readonly #options: SweeperOptions
  #undo: () => void = () => {}
  #sweeping: Promise<void> | undefined
  #isClosed = false

  constructor(options: SweeperOptions) {
    this.#options = options
    this.#wait()
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /** No other one begins. Resolves when one that is going on has ended. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#undo()
    await this.#sweeping
  }

  #wait(): void {
    if (this.#isClosed) return
    const { clock, everyMs, sweep, onError = () => {} } = this.#options
    this.#undo = clock.after(everyMs, () => {
      this.#sweeping = sweep()
        .catch(onError)
        .finally(() => this.#wait())
    })
  }
}
