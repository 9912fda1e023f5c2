import { watch } from 'node:fs'
import { basename, dirname, resolve } from 'node:path'

import { systemClock, type Clock } from './clock.ts'

/** Time without a change after which a file counts as written: editors write it in several steps. */
const QUIET_MS = 200

export interface WatchOptions {
  readonly onChange: () => void
  /** Receives the error if the file cannot be watched, or no longer. */
  readonly onError: (error: unknown) => void
  readonly clock?: Clock | undefined
}

/**
 * Watches a file, and calls `onChange` once for changes that follow each other closely. It watches the folder, because
 * editors and Kubernetes replace the file.
 *
 * @returns a function that ends the watch
 */
export function watchFile(file: string, options: WatchOptions): () => void {
  const { onChange, onError, clock = systemClock } = options
  const path = resolve(file)
  let cancel: (() => void) | undefined
  const onEvent = (_type: string, name: string | null): void => {
    // Kubernetes moves `..data` when a mounted configuration changes.
    if (name !== null && name !== basename(path) && name !== '..data') return
    cancel?.()
    cancel = clock.after(QUIET_MS, onChange)
  }
  try {
    const watcher = watch(dirname(path), { persistent: false }, onEvent)
    watcher.on('error', onError)
    return () => {
      cancel?.()
      watcher.close()
    }
  } catch (error) {
    onError(error)
    return () => undefined
  }
}

/** Watches several files, and calls `onChange` once for changes that come together. */
export class WatchedFiles {
  readonly #options: WatchOptions & { readonly clock: Clock }
  readonly #watches = new Map<string, () => void>()
  #cancel: (() => void) | undefined
  #isClosed = false

  constructor(options: WatchOptions & { readonly clock: Clock }) {
    this.#options = options
  }

  /** Has no effect for a file that is watched already. */
  add(path: string): void {
    if (this.#isClosed || this.#watches.has(path)) return
    const { clock, onChange } = this.#options
    const onFile = (): void => {
      this.#cancel?.()
      this.#cancel = clock.after(0, onChange)
    }
    this.#watches.set(path, watchFile(path, { ...this.#options, onChange: onFile }))
  }

  close(): void {
    this.#isClosed = true
    this.#cancel?.()
    for (const end of this.#watches.values()) end()
    this.#watches.clear()
  }
}
