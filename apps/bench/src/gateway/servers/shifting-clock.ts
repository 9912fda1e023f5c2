import type { Clock } from '@x/mcp-gateway'

/** The time of this machine, until it is set forward: then everything is due that became due meanwhile. */
export class ShiftingClock implements Clock {
  #aheadMs = 0
  readonly #timers = new Map<
    NodeJS.Timeout,
    { readonly dueAt: number; readonly call: () => void }
  >()

  now(): number {
    return Date.now() + this.#aheadMs
  }

  after(ms: number, call: () => void): () => void {
    const fire = (): void => {
      this.#timers.delete(timer)
      call()
    }
    const timer = setTimeout(fire, ms)
    timer.unref()
    this.#timers.set(timer, { dueAt: this.now() + ms, call })
    return () => {
      clearTimeout(timer)
      this.#timers.delete(timer)
    }
  }

  forward(ms: number): void {
    this.#aheadMs += ms
    for (const [timer, { dueAt, call }] of this.#timers) {
      if (dueAt > this.now()) continue
      clearTimeout(timer)
      this.#timers.delete(timer)
      call()
    }
  }
}
