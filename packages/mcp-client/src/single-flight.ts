import { abortReason, untilAborted } from '@x/internal'

/**
 * One operation that several callers wait for. A caller that stops waiting does not affect the others. When the last
 * one has stopped, the operation is aborted. All waiting callers get the same error; later ones start a new operation.
 */
export class SingleFlight<T> {
  #flight: Flight<T> | undefined

  /** True while the operation is in progress. */
  get isBusy(): boolean {
    return this.#flight !== undefined
  }

  /**
   * Joins the operation in progress, or starts one. Does so again after an error of the caller that began, if that
   * is none of this one.
   *
   * @throws the error of the operation, or the reason of `signal` if that aborts first
   */
  async join(
    start: (signal: AbortSignal) => Promise<T>,
    signal?: AbortSignal,
    isOfOther: (error: unknown) => Promise<boolean> = async () => false,
  ): Promise<T> {
    for (;;) {
      if (signal?.aborted === true) throw abortReason(signal)
      const isOwn = this.#flight === undefined
      const flight = (this.#flight ??= this.#start(start))
      if (!flight.controller.signal.aborted) {
        try {
          return await this.#wait(flight, signal)
        } catch (error) {
          if (isOwn || !(await untilAborted(isOfOther(error), signal))) throw error
          continue
        }
      }
      // All callers have left this one, and it is about to end. Starts a new one then.
      await (signal === undefined ? flight.ended : untilAborted(flight.ended, signal))
    }
  }

  /** Aborts the operation in progress. Waiting callers reject with `reason` at once. Resolves when the operation has ended. */
  async abort(reason: Error): Promise<void> {
    const flight = this.#flight
    flight?.controller.abort(reason)
    await flight?.ended
  }

  async #wait(flight: Flight<T>, signal: AbortSignal | undefined): Promise<T> {
    flight.waiters++
    const leave = (): void => {
      if (--flight.waiters > 0 || this.#flight !== flight) return
      flight.controller.abort(new Error('All callers have stopped waiting'))
    }
    // At once, because a caller that comes next must not join an operation that all have left.
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
    // A step later, when `#flight` is set: `start` may call listeners, which may join.
    const run = Promise.resolve()
      .then(() => start(controller.signal))
      .finally(() => {
        this.#flight = undefined
      })
    const result = untilAborted(run, controller.signal)
    result.catch(() => {}) // the waiting callers get the error
    return { controller, result, ended: Promise.allSettled([run]), waiters: 0 }
  }
}

interface Flight<T> {
  readonly controller: AbortController
  /** Result of the operation, or the reason of its abort. One promise for all callers, because there may be thousands. */
  readonly result: Promise<T>
  /** Fulfils when the operation has ended, with or without success. */
  readonly ended: Promise<unknown>
  waiters: number
}
