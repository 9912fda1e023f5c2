import { abortReason, LONGEST_MS } from '@x/internal'

/** Reason of a signal that aborted at its time limit. */
export class DeadlineError extends Error {
  override readonly name = 'DeadlineError'
}

/**
 * Time limit of one operation: a signal that aborts with the caller's signal or when the time is up. Dispose of it
 * when the operation has settled: the caller's signal may serve thousands of calls, and must not keep listeners.
 */
export class Deadline implements Disposable {
  /** Aborts at the limit, or with the caller's signal. */
  readonly signal: AbortSignal
  readonly #controller = new AbortController()
  readonly #unlink: (() => void) | undefined
  readonly #timeoutMs: number
  /** `extend()` does not move the end beyond this time. */
  readonly #endsAtMost: number
  #timer: NodeJS.Timeout
  #endsAt: number

  /**
   * `maxMs` limits the time with all extensions. Without it, `extend()` has no effect.
   *
   * @throws TypeError for a limit that is not above 0. `Infinity` means 24 days.
   */
  constructor(timeoutMs: number, caller?: AbortSignal, maxMs: number = timeoutMs) {
    if (!(timeoutMs > 0)) {
      throw new TypeError(`A time limit must be a number of milliseconds above 0, not ${timeoutMs}`)
    }
    this.signal = this.#controller.signal
    this.#timeoutMs = timeoutMs
    const now = performance.now()
    this.#endsAt = now + Math.min(timeoutMs, LONGEST_MS)
    this.#endsAtMost = now + Math.max(timeoutMs, maxMs)
    this.#timer = this.#start(timeoutMs, `No answer within ${timeoutMs} ms`)
    this.#unlink = caller === undefined ? undefined : this.#follow(caller)
  }

  /** Remaining time, in milliseconds. */
  get leftMs(): number {
    return this.#endsAt - performance.now()
  }

  /** Restarts the limit, after progress. */
  extend(): void {
    const now = performance.now()
    const endsAt = Math.min(now + Math.min(this.#timeoutMs, LONGEST_MS), this.#endsAtMost)
    if (endsAt <= this.#endsAt || this.signal.aborted) return
    this.#endsAt = endsAt
    clearTimeout(this.#timer)
    this.#timer = this.#start(
      endsAt - now,
      endsAt === this.#endsAtMost
        ? 'No answer within the maximum time'
        : `No answer and no progress within ${this.#timeoutMs} ms`,
    )
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer)
    this.#unlink?.()
  }

  #start(ms: number, message: string): NodeJS.Timeout {
    const end = (): void => this.#controller.abort(new DeadlineError(message))
    return setTimeout(end, Math.min(ms, LONGEST_MS))
  }

  #follow(caller: AbortSignal): () => void {
    const onAbort = (): void => this.#controller.abort(abortReason(caller))
    if (caller.aborted) onAbort()
    else caller.addEventListener('abort', onAbort, { once: true })
    return () => caller.removeEventListener('abort', onAbort)
  }
}
