/** Number of failures in a row after which nothing that is known of the server counts any more. */
const MAX_FAILURES = 3

/**
 * Counts failures in a row, of any kind, so that no answer of a server leaves a client that fails for ever. A server
 * may forget a session, or change its era, in a form that looks like an ordinary error.
 */
export class FailureStreak {
  #count = 0

  /** Number of failures since the last success. */
  get count(): number {
    return this.#count
  }

  /** True after three failures in a row: the next request starts from nothing, unless a test succeeds. */
  get isTooLong(): boolean {
    return this.#count >= MAX_FAILURES
  }

  /** Records a failed request, a lost session, or a handshake that failed. */
  add(): void {
    this.#count++
  }

  /** Called for each result of the server, and after a start from nothing. */
  end(): void {
    this.#count = 0
  }
}
