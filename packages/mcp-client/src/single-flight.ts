import { untilAborted } from '@x/internal'
import { reasonOf } from './deadline.ts'

/**
 * One run of something that many wait for. A waiter that gives up leaves the others waiting; when
 * nobody waits any more, the run is aborted. A failure is shared by those who waited, and not kept.
 */
export class SingleFlight<T> {
  #flight: Flight<T> | undefined

  /** Whether a run is in progress. */
  get isBusy(): boolean {
    return this.#flight !== undefined
  }

  /**
   * Joins the run in progress, or starts one.
   *
   * @throws what the run failed with, or the reason of `signal` if that aborts first
   */
  async join(start: (signal: AbortSignal) => Promise<T>, signal?: AbortSignal): Promise<T> {
    for (;;) {
      if (signal?.aborted === true) throw reasonOf(signal)
      const flight = (this.#flight ??= this.#start(start))
      if (!flight.controller.signal.aborted) return this.#wait(flight, signal)
      // Everybody had left it, and it is about to end: who comes now wants one that goes on.
      await (signal === undefined ? flight.ended : untilAborted(flight.ended, signal))
    }
  }

  /** Aborts the run in progress, if there is one; who waits for it gets `reason` at once. Resolves when it has ended. */
  async abort(reason: Error): Promise<void> {
    const flight = this.#flight
    flight?.controller.abort(reason)
    await flight?.ended
  }

  async #wait(flight: Flight<T>, signal: AbortSignal | undefined): Promise<T> {
    flight.waiters++
    const leave = (): void => {
      if (--flight.waiters > 0 || this.#flight !== flight) return
      flight.controller.abort(new Error('Nobody waits for it any more'))
    }
    // Who gives up leaves at once: a caller that comes next must not join what all are leaving.
    signal?.addEventListener('abort', leave, { once: true })
    try {
      const { result } = flight
      return await (signal === undefined ? result : untilAborted(result, signal))
    } finally {
      signal?.removeEventListener('abort', leave)
      if (signal?.aborted !== true) leave()
    }
  }

  #start(start: (signal: AbortSignal) => Promise<T>): Flight<T> {
    const controller = new AbortController()
    // Not before the flight is known: `start` may call listeners, and they may want to join.
    const run = Promise.resolve()
      .then(() => start(controller.signal))
      .finally(() => {
        this.#flight = undefined
      })
    const result = untilAborted(run, controller.signal)
    result.catch(() => {}) // told to those who wait, if there still are any
    return { controller, result, ended: settled(run), waiters: 0 }
  }
}

interface Flight<T> {
  readonly controller: AbortController
  /** What the run gives, or why it was aborted. One for all: there may be thousands who wait. */
  readonly result: Promise<T>
  /** Fulfils when the run has ended, however it did. */
  readonly ended: Promise<void>
  waiters: number
}

/** Its failure is told to those who wait for it. */
async function settled(result: Promise<unknown>): Promise<void> {
  await result.catch(() => {})
}
