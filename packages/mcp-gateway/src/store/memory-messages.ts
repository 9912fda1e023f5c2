import type { Messages } from './gateway-store.ts'
import { toJsonText } from './gateway-store.ts'

/** Messages within this process. None is ever lost, so nobody hears of a gap. */
export class MemoryMessages implements Messages {
  readonly #topics = new Map<string, Set<(message: unknown) => void>>()
  readonly #onError: (error: unknown) => void

  constructor(onError: (error: unknown) => void) {
    this.#onError = onError
  }

  async publish(topic: string, message: unknown): Promise<void> {
    const text = toJsonText(message)
    for (const listener of new Set(this.#topics.get(topic))) {
      try {
        listener(JSON.parse(text))
      } catch (error) {
        this.#onError(error)
      }
    }
  }

  async subscribe(topic: string, listener: (message: unknown) => void): Promise<() => void> {
    const listeners = this.#topics.get(topic) ?? new Set()
    const entry = (message: unknown): void => listener(message) // the same one may be added twice
    this.#topics.set(topic, listeners.add(entry))
    return () => {
      listeners.delete(entry)
      if (listeners.size === 0 && this.#topics.get(topic) === listeners) this.#topics.delete(topic)
    }
  }

  clear(): void {
    this.#topics.clear()
  }
}
