/**
 * One run of something that many wait for. A waiter that gives up leaves the others waiting; when
 * nobody waits any more, the run is aborted. A failure is shared by those who waited, and not kept.
 */
export class SingleFlight<T> {
  #flight: Flight<T> | undefined

  /** Joins the run in progress, or starts one. Rejects with the reason of `signal` if that aborts. */
  async join(start: (signal: AbortSignal) => Promise<T>, signal?: AbortSignal): Promise<T> {
    signal?.throwIfAborted()
    const flight = (this.#flight ??= this.#start(start))
    flight.waiters++
    try {
      return await settledOrAborted(flight.result, signal)
    } finally {
      if (--flight.waiters === 0) flight.controller.abort(new Error('Nobody waits for it any more'))
    }
  }

  /** Aborts the run in progress, if there is one, and resolves when it has ended. */
  async abort(reason: Error): Promise<void> {
    const flight = this.#flight
    flight?.controller.abort(reason)
    await flight?.result.catch(() => {}) // told to those who wait
  }

  #start(start: (signal: AbortSignal) => Promise<T>): Flight<T> {
    const controller = new AbortController()
    const result = start(controller.signal).finally(() => {
      if (this.#flight === flight) this.#flight = undefined
    })
    result.catch(() => {}) // every waiter may have left
    const flight: Flight<T> = { controller, result, waiters: 0 }
    return flight
  }
}

interface Flight<T> {
  readonly controller: AbortController
  readonly result: Promise<T>
  waiters: number
}

/** Waits for a promise, but no longer than until `signal` aborts. */
export function settledOrAborted<T>(
  result: Promise<T>,
  signal: AbortSignal | undefined,
): Promise<T> {
  if (signal === undefined) return result
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(reasonOf(signal))
    signal.addEventListener('abort', onAbort, { once: true })
    result
      .then(resolve, reject)
      .finally(() => signal.removeEventListener('abort', onAbort))
      .catch(() => {})
  })
}

/** An abort's reason may be anything; a rejection should be an error. */
export function reasonOf(signal: AbortSignal): Error {
  const reason: unknown = signal.reason
  return reason instanceof Error ? reason : new Error(String(reason))
}
