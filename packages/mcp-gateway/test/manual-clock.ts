import type { Clock } from '../src/internal/clock.ts'

interface Timer {
  readonly at: number
  readonly callback: () => void
}

/** A clock that a test moves. */
export class ManualClock implements Clock {
  readonly #timers = new Set<Timer>()
  #now = 1_000_000

  now(): number {
    return this.#now
  }

  after(ms: number, callback: () => void): () => void {
    const timer = { at: this.#now + ms, callback }
    this.#timers.add(timer)
    return () => void this.#timers.delete(timer)
  }

  /** Number of timers that are set. */
  get pending(): number {
    return this.#timers.size
  }

  /** Moves the clock. Fires all timers that are due in order, also those set meanwhile, and settles promises between them. */
  async advance(ms: number): Promise<void> {
    const until = this.#now + ms
    for (;;) {
      const [next] = [...this.#timers]
        .filter(({ at }) => at <= until)
        .toSorted((a, b) => a.at - b.at)
      if (next === undefined) break
      this.#now = Math.max(this.#now, next.at)
      this.#timers.delete(next)
      next.callback()
      await settled()
    }
    this.#now = until
    await settled()
  }
}

/** Waits until all settled promises have called their callbacks. */
export async function settled(): Promise<void> {
  await new Promise((resolve) => {
    setImmediate(resolve)
  })
}
