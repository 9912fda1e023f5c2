import type { Clock } from '../internal/clock.ts'

/** Holds back whoever wants a first list, for a bounded time: some clients read it once. */
export class FirstList {
  readonly #clock: Clock
  readonly #timeoutMs: number
  #isOpen = false
  #cancel: (() => void) | undefined
  #open: () => void = () => undefined
  readonly #opened = new Promise<void>((resolve) => {
    this.#open = resolve
  })

  constructor(clock: Clock, timeoutMs: number) {
    this.#clock = clock
    this.#timeoutMs = timeoutMs
  }

  get isOpen(): boolean {
    return this.#isOpen
  }

  /** Time begins to run, with the first to call this. Never rejects. */
  wait(): Promise<void> {
    if (!this.#isOpen) this.#cancel ??= this.#clock.after(this.#timeoutMs, () => this.open())
    return this.#opened
  }

  open(): void {
    this.#isOpen = true
    this.#cancel?.()
    this.#open()
  }
}
