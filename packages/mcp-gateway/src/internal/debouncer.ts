import type { Clock } from './clock.ts'

export interface DebouncerOptions {
  readonly clock: Clock
  /** How long to wait for more. */
  readonly quietMs: number
  /** How long at most, from the first. */
  readonly maxMs: number
  readonly onDue: () => void
}

/** Makes one of many that come soon after each other. */
export class Debouncer {
  readonly #options: DebouncerOptions
  #firstAt: number | undefined
  #cancel: (() => void) | undefined

  constructor(options: DebouncerOptions) {
    this.#options = options
  }

  /** Something came, and nothing was made of it yet. */
  get isPending(): boolean {
    return this.#cancel !== undefined
  }

  touch(): void {
    const { clock, quietMs, maxMs, onDue } = this.#options
    const now = clock.now()
    this.#firstAt ??= now
    this.#cancel?.()
    this.#cancel = clock.after(Math.max(0, Math.min(quietMs, this.#firstAt + maxMs - now)), () => {
      this.clear()
      onDue()
    })
  }

  /** Nothing is due any more. */
  clear(): void {
    this.#cancel?.()
    this.#cancel = undefined
    this.#firstAt = undefined
  }
}
