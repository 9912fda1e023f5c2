import { reasonOf } from './settled-or-aborted.ts'

/** The time was up. */
export class DeadlineError extends Error {
  override readonly name = 'DeadlineError'
}

/** The longest a timer can be; with a longer one it would fire at once. */
export const LONGEST_MS: number = 2 ** 31 - 1

/**
 * The time that one operation has: a signal that aborts when the caller's signal does or when the time is
 * up. Dispose it when the operation has settled, so that no listener stays on the caller's signal, which may
 * live for thousands of calls.
 */
export class Deadline implements Disposable {
  readonly #controller = new AbortController()
  readonly #unlink: () => void
  readonly #timeoutMs: number
  /** `extend()` moves the end, but never beyond this time. */
  readonly #endsAtMost: number
  #timer: NodeJS.Timeout
  #endsAt: number

  /**
   * `maxMs` bounds the time with all extensions; without it, `extend()` changes nothing.
   *
   * @throws TypeError for a limit that is not above 0. `Infinity` is 24 days.
   */
  constructor(timeoutMs: number, caller?: AbortSignal, maxMs: number = timeoutMs) {
    if (!(timeoutMs > 0)) {
      throw new TypeError(`A time limit is a number of milliseconds above 0, not ${timeoutMs}`)
    }
    this.#timeoutMs = timeoutMs
    const now = performance.now()
    this.#endsAt = now + timeoutMs
    this.#endsAtMost = now + Math.max(timeoutMs, maxMs)
    this.#timer = this.#start(timeoutMs, `No answer within ${timeoutMs} ms`)
    this.#unlink = caller === undefined ? () => {} : this.#follow(caller)
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** What is left of the time, in milliseconds. */
  get leftMs(): number {
    return this.#endsAt - performance.now()
  }

  /** Progress was made: the limit counts from now again. */
  extend(): void {
    const now = performance.now()
    const endsAt = Math.min(now + this.#timeoutMs, this.#endsAtMost)
    if (endsAt <= this.#endsAt || this.signal.aborted) return
    this.#endsAt = endsAt
    clearTimeout(this.#timer)
    this.#timer = this.#start(
      endsAt - now,
      endsAt === this.#endsAtMost
        ? 'No answer within the longest time allowed'
        : `No answer and no progress within ${this.#timeoutMs} ms`,
    )
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer)
    this.#unlink()
  }

  #start(ms: number, message: string): NodeJS.Timeout {
    const end = (): void => this.#controller.abort(new DeadlineError(message))
    return setTimeout(end, Math.min(ms, LONGEST_MS))
  }

  #follow(caller: AbortSignal): () => void {
    const onAbort = (): void => this.#controller.abort(reasonOf(caller))
    if (caller.aborted) onAbort()
    else caller.addEventListener('abort', onAbort, { once: true })
    return () => caller.removeEventListener('abort', onAbort)
  }
}
