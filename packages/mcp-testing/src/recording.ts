import { deferred } from '@x/internal/testing'
import type { Deferred } from '@x/internal/testing'

/** `T` for its owner, who may change it. */
export type Mutable<T> = { -readonly [Key in keyof T]: T[Key] }

/** Options of every `waitFor`. */
export interface WaitForOptions {
  /** Time after which the wait rejects, in milliseconds. @default 240_000, which only ends a wait that hangs */
  readonly timeoutMs?: number | undefined
}

interface Waiter<Entry> extends Deferred<Entry> {
  readonly matches: (entry: Entry) => boolean
}

/** Entries in order, and a way to wait for later ones. */
export class Recording<Entry> {
  readonly entries: Entry[] = []
  readonly #what: string
  readonly #waiters = new Set<Waiter<Entry>>()
  #closed = false

  /** `what` names the entries in errors. */
  constructor(what: string) {
    this.#what = what
  }

  add(entry: Entry): void {
    this.entries.push(entry)
    this.changed(entry)
  }

  /** Lets waits look again at an entry that has changed. */
  changed(entry: Entry): void {
    for (const { matches, resolve } of this.#waiters) if (matches(entry)) resolve(entry)
  }

  /**
   * The first entry that matches, past ones included, as soon as there is one.
   *
   * @throws after `timeoutMs`, and when the recording is closed
   */
  waitFor(matches: (entry: Entry) => boolean, options: WaitForOptions = {}): Promise<Entry> {
    const { timeoutMs = 240_000 } = options
    const present = this.entries.find(matches)
    if (present !== undefined) return Promise.resolve(present)
    if (this.#closed) return Promise.reject(new Error(`No ${this.#what} matched before the end`))

    const waiter = { ...deferred<Entry>(), matches }
    const timer = setTimeout(() => {
      const seen = this.entries.length
      waiter.reject(new Error(`None of ${seen} matched in ${timeoutMs} ms: ${this.#what}`))
    }, timeoutMs)
    const settled = (): void => {
      clearTimeout(timer)
      this.#waiters.delete(waiter)
    }
    this.#waiters.add(waiter)
    // Handles the rejection too: a test that has failed elsewhere no longer awaits the wait.
    waiter.promise.then(settled, settled)
    return waiter.promise
  }

  /** Rejects every wait. */
  close(): void {
    this.#closed = true
    for (const { reject } of this.#waiters) {
      reject(new Error(`Disposed while waiting: ${this.#what}`))
    }
  }
}
