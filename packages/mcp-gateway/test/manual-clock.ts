import type { Clock } from '../src/internal/clock.ts'

interface Timer {
  readonly at: number
  readonly callback: () => void
}

/** Time that passes when a test says so. */
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

  /** Timers that have not fired and were not undone. */
  get pending(): number {
    return this.#timers.size
  }

  /** Fires what is due, in order, also what is set meanwhile; between two timers, what was promised happens. */
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

/** Everything that is already promised has happened. */
export async function settled(): Promise<void> {
  await new Promise((resolve) => {
    setImmediate(resolve)
  })
}
