/** Listeners of one event: taking one out twice is harmless, one that throws or rejects stops no other. */
export class Listeners<Payload> {
  readonly #all = new Set<(payload: Payload) => unknown>()
  readonly #onError: (error: unknown) => void

  constructor(onError: (error: unknown) => void) {
    this.#onError = onError
  }

  get isEmpty(): boolean {
    return this.#all.size === 0
  }

  /** Returns its own undo. */
  add(listener: (payload: Payload) => unknown): () => void {
    const entry = (payload: Payload): unknown => listener(payload) // the same function may be added twice
    this.#all.add(entry)
    return () => void this.#all.delete(entry)
  }

  emit(payload: Payload): void {
    for (const listener of new Set(this.#all)) {
      try {
        const result = listener(payload)
        if (result instanceof Promise) result.catch(this.#onError)
      } catch (error) {
        this.#onError(error)
      }
    }
  }

  clear(): void {
    this.#all.clear()
  }
}
