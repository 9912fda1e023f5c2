const NONE: readonly never[] = []

/** Listeners of one event: taking one out twice is harmless, one that throws or rejects stops no other. */
export class Listeners<Payload> {
  /** Never changed, but replaced: so nothing is copied to tell, and those without listeners share one. */
  #all: readonly ((payload: Payload) => unknown)[] = NONE
  readonly #onError: (error: unknown, payload: Payload) => void

  /** `onError` is told what a listener failed with, and what it had been told. */
  constructor(onError: (error: unknown, payload: Payload) => void) {
    this.#onError = onError
  }

  get isEmpty(): boolean {
    return this.#all.length === 0
  }

  /** Returns its own undo. */
  add(listener: (payload: Payload) => unknown): () => void {
    const entry = (payload: Payload): unknown => listener(payload) // the same function may be added twice
    this.#all = [...this.#all, entry]
    return () => {
      this.#all = this.#all.filter((each) => each !== entry)
    }
  }

  emit(payload: Payload): void {
    for (const listener of this.#all) {
      try {
        const result = listener(payload)
        if (result instanceof Promise)
          result.catch((error: unknown) => this.#onError(error, payload))
      } catch (error) {
        this.#onError(error, payload)
      }
    }
  }
}
