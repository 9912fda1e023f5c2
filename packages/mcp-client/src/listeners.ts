/** Listeners of one event: taking one out twice is harmless, one that throws stops no other. */
export class Listeners<Payload> {
  readonly #all = new Set<(payload: Payload) => void>()
  readonly #onError: (error: unknown) => void

  constructor(onError: (error: unknown) => void) {
    this.#onError = onError
  }

  /** Returns its own undo. */
  add(listener: (payload: Payload) => void): () => void {
    const entry = (payload: Payload): void => listener(payload) // the same function may be added twice
    this.#all.add(entry)
    return () => void this.#all.delete(entry)
  }

  emit(payload: Payload): void {
    for (const listener of new Set(this.#all)) {
      try {
        listener(payload)
      } catch (error) {
        this.#onError(error)
      }
    }
  }
}
