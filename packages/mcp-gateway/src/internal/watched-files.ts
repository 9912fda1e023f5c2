import type { Clock } from './clock.ts'
import { watchedFile, type WatchedFileOptions } from './watched-file.ts'

/** Tells when one of several files was written: once for what comes together, and not while it is told. */
export class WatchedFiles {
  readonly #options: WatchedFileOptions & { readonly clock: Clock }
  readonly #undos = new Map<string, () => void>()
  #undoDue: (() => void) | undefined
  #isClosed = false

  constructor(options: WatchedFileOptions & { readonly clock: Clock }) {
    this.#options = options
  }

  /** Harmless for one that is watched already. */
  add(path: string): void {
    if (this.#isClosed || this.#undos.has(path)) return
    const onChange = (): void => this.#due()
    this.#undos.set(path, watchedFile(path, { ...this.#options, onChange }))
  }

  close(): void {
    this.#isClosed = true
    this.#undoDue?.()
    for (const undo of this.#undos.values()) undo()
    this.#undos.clear()
  }

  #due(): void {
    const { clock, onChange } = this.#options
    this.#undoDue?.()
    this.#undoDue = clock.after(0, onChange)
  }
}
