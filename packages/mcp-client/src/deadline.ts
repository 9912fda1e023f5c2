import { reasonOf } from './settled-or-aborted.ts'

/** The time was up. */
export class DeadlineError extends Error {
  override readonly name = 'DeadlineError'
}

/** The longest a timer can be; with a longer one it would fire at once. */
export const LONGEST_MS: number = 2 ** 31 - 1

/**
 * The time and the patience that one operation has: a signal that aborts when the caller's does or when
 * the time is up. Dispose it when the operation has settled, so that nothing stays behind on the
 * caller's signal, which may live for thousands of calls.
 */
export class Deadline implements Disposable {
  readonly #controller = new AbortController()
  readonly #timer: NodeJS.Timeout
  readonly #unlink: () => void
  readonly #endsAt: number

  /** @throws TypeError for a limit that is not above 0. `Infinity` is 24 days. */
  constructor(timeoutMs: number, caller?: AbortSignal) {
    if (!(timeoutMs > 0)) {
      throw new TypeError(`A time limit is a number of milliseconds above 0, not ${timeoutMs}`)
    }
    this.#endsAt = performance.now() + timeoutMs
    this.#timer = setTimeout(
      () => this.#controller.abort(new DeadlineError(`No answer within ${timeoutMs} ms`)),
      Math.min(timeoutMs, LONGEST_MS),
    )
    this.#unlink = caller === undefined ? () => {} : this.#follow(caller)
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** What is left of the time, in milliseconds. */
  get leftMs(): number {
    return this.#endsAt - performance.now()
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer)
    this.#unlink()
  }

  #follow(caller: AbortSignal): () => void {
    const onAbort = (): void => this.#controller.abort(reasonOf(caller))
    if (caller.aborted) onAbort()
    else caller.addEventListener('abort', onAbort, { once: true })
    return () => caller.removeEventListener('abort', onAbort)
  }
}
