import { reasonOf } from './single-flight.ts'

/** What ended an operation from this side. */
export class DeadlineError extends Error {
  override readonly name = 'DeadlineError'
}

/**
 * The time and the patience that one operation has: a signal that aborts when the caller's does or when
 * the time is up. Dispose it when the operation has settled, so that nothing stays behind on the
 * caller's signal, which may live for thousands of calls.
 */
export class Deadline implements Disposable {
  readonly #controller = new AbortController()
  readonly #caller: AbortSignal | undefined
  readonly #timer: NodeJS.Timeout
  readonly #onAbort = (): void => this.#controller.abort(reasonOf(this.#caller!))

  constructor(timeoutMs: number, caller: AbortSignal | undefined) {
    this.#caller = caller
    this.#timer = setTimeout(
      () => this.#controller.abort(new DeadlineError(`No answer within ${timeoutMs} ms`)),
      timeoutMs,
    )
    if (caller?.aborted === true) this.#onAbort()
    else caller?.addEventListener('abort', this.#onAbort, { once: true })
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer)
    this.#caller?.removeEventListener('abort', this.#onAbort)
  }
}
