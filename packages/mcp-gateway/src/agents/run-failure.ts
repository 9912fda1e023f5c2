import type { RunFailureReason } from '../internal/run-event.ts'

export interface RunFailureOptions extends ErrorOptions {
  readonly retryAfterMs?: number | undefined
}

/** A run that ends without an answer. The message is for the caller: it holds no detail of what went wrong inside. */
export class RunFailure extends Error {
  override readonly name = 'RunFailure'
  readonly reason: RunFailureReason
  readonly retryAfterMs: number | undefined

  constructor(reason: RunFailureReason, message: string, options: RunFailureOptions = {}) {
    super(message, options)
    this.reason = reason
    this.retryAfterMs = options.retryAfterMs
  }
}
