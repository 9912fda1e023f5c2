/**
 * What was opened, closed in reverse order. The few lines we need of `AsyncDisposableStack`, which Node
 * has from version 24. Failures of closing are told to `onError` and never thrown.
 */
export class ResourceStack implements AsyncDisposable {
  readonly #closers: (() => unknown)[] = []
  readonly #onError: (error: unknown) => void

  constructor(onError: (error: unknown) => void) {
    this.#onError = onError
  }

  defer(close: () => unknown): void {
    this.#closers.push(close)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (let close = this.#closers.pop(); close !== undefined; close = this.#closers.pop()) {
      try {
        // One after the other: what was opened later may need what was opened before.
        await close()
      } catch (error) {
        this.#onError(error)
      }
    }
  }
}
