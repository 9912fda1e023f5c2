import { watch } from 'node:fs'
import { basename, dirname, resolve } from 'node:path'

import { systemClock, type Clock } from './clock.ts'

/** Editors write a file in several steps. */
const QUIET_MS = 200

export interface WatchedFileOptions {
  readonly onChange: () => void
  /** It cannot be watched (any more). */
  readonly onError: (error: unknown) => void
  readonly clock?: Clock | undefined
}

/**
 * Tells when a file was written, once for what comes together. Looks at its folder: editors and Kubernetes put a
 * new file in the place of the old one.
 *
 * @returns the end
 */
export function watchedFile(file: string, options: WatchedFileOptions): () => void {
  const { onChange, onError, clock = systemClock } = options
  const path = resolve(file)
  let undo: (() => void) | undefined
  const onEvent = (_type: string, name: string | null): void => {
    // `..data` is what Kubernetes moves when a mounted configuration changes.
    if (name !== null && name !== basename(path) && name !== '..data') return
    undo?.()
    undo = clock.after(QUIET_MS, onChange)
  }
  try {
    const watcher = watch(dirname(path), { persistent: false }, onEvent)
    watcher.on('error', onError)
    return () => {
      undo?.()
      watcher.close()
    }
  } catch (error) {
    onError(error)
    return () => undefined
  }
}
