/** Closes what a test has opened, in the reverse order. `AsyncDisposableStack` needs Node 24. */
export class OpenResources implements AsyncDisposable {
  readonly #closings: (() => unknown)[] = []

  /** Returns the resource, which is disposed of at the end. */
  use<Resource extends AsyncDisposable>(resource: Resource): Resource {
    this.defer(() => resource[Symbol.asyncDispose]())
    return resource
  }

  /** Calls a function at the end. */
  defer(close: () => unknown): void {
    this.#closings.unshift(close)
  }

  /** @throws AggregateError with all failures */
  async [Symbol.asyncDispose](): Promise<void> {
    const failures: unknown[] = []
    for (const close of this.#closings.splice(0)) {
      try {
        await close()
      } catch (error) {
        failures.push(error)
      }
    }
    if (failures.length > 0) throw new AggregateError(failures, 'Resources could not be closed')
  }
}
