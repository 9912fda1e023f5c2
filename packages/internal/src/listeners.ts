const NONE: readonly never[] = []

/** Listeners of one event. A listener that throws or rejects stops no other. */
export class Listeners<Payload> {
  /** Replaced by every change, never changed: `emit()` needs no copy, and all objects without listeners share one list. */
  #all: readonly ((payload: Payload) => unknown)[] = NONE
  readonly #onError: (error: unknown, payload: Payload) => void

  /** `onError` receives the failure of a listener, and the payload that the listener received. */
  constructor(onError: (error: unknown, payload: Payload) => void) {
    this.#onError = onError
  }

  get isEmpty(): boolean {
    return this.#all.length === 0
  }

  /** Returns a function that removes the listener. Calling it twice is harmless. */
  add(listener: (payload: Payload) => unknown): () => void {
    const added = (payload: Payload): unknown => listener(payload) // the same function may be added twice
    this.#all = [...this.#all, added]
    return () => {
      this.#all = this.#all.filter((each) => each !== added)
    }
  }

  clear(): void {
    this.#all = NONE
  }

  emit(payload: Payload): void {
    for (const listener of this.#all) {
      try {
        const result = listener(payload)
        if (result instanceof Promise) {
          result.catch((error: unknown) => this.#onError(error, payload))
        }
      } catch (error) {
        this.#onError(error, payload)
      }
    }
  }
}
