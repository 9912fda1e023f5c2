/**
 * Runs what goes to one remote place strictly one after the other. A write is asked for, not handed
 * over: it looks up what to write when its turn comes, so that however often it is asked for while
 * another step runs, it runs once, and an old value can never overtake a new one.
 */
export class WriteBehind {
  readonly #write: () => Promise<void>
  #tail: Promise<unknown> = Promise.resolve()
  #isWaiting = false

  /** `write` must not reject. */
  constructor(write: () => Promise<void>) {
    this.#write = write
  }

  /** Asks for a write, after everything that is already under way. */
  request(): void {
    if (this.#isWaiting) return
    this.#isWaiting = true
    void this.run(() => {
      this.#isWaiting = false
      return this.#write()
    })
  }

  /** Runs another step in turn. `step` must not reject. */
  run<Result>(step: () => Promise<Result>): Promise<Result> {
    const result = this.#tail.then(step)
    this.#tail = result
    return result
  }

  /** Resolves when nothing is waiting or running. */
  async idle(): Promise<void> {
    for (let tail; tail !== this.#tail;) {
      tail = this.#tail
      await tail
    }
  }
}
