import type { TransportError } from '../transport-error.ts'

/**
 * Whether something was cancelled, and why. Has an `AbortSignal` only once somebody asks for it: most
 * requests are over before, and a signal costs more than all else that is kept of one.
 */
export class Cancellation {
  #reason: TransportError | undefined
  #controller: AbortController | undefined

  /** Of the first `cancel`; undefined while there was none. */
  get reason(): TransportError | undefined {
    return this.#reason
  }

  get signal(): AbortSignal {
    const controller = (this.#controller ??= new AbortController())
    if (this.#reason !== undefined) controller.abort(this.#reason)
    return controller.signal
  }

  cancel(reason: TransportError): void {
    this.#reason ??= reason
    this.#controller?.abort(this.#reason)
  }
}
