/** An entry of a recording as its owner sees it. */
export type Mutable<T> = { -readonly [Key in keyof T]: T[Key] }

/** How long and from where `waitFor` looks. */
export interface WaitForOptions {
  /** Index of the first entry that counts. @default 0, so that what has already happened counts */
  readonly from?: number | undefined
  /** After this the wait rejects. @default 4_000, a little less than a test may take */
  readonly timeoutMs?: number | undefined
}

interface Waiter<Entry> {
  readonly matches: (entry: Entry) => boolean
  readonly from: number
  readonly settle: (outcome: { entry: Entry } | { error: Error }) => void
}

/** What a server saw, in order, and a way to wait for more of it. */
export class Recording<Entry> {
  readonly entries: Entry[] = []
  readonly #what: string
  readonly #waiters = new Set<Waiter<Entry>>()
  #closed = false

  constructor(what: string) {
    this.#what = what
  }

  add(entry: Entry): void {
    this.entries.push(entry)
    this.#tell(entry, this.entries.length - 1)
  }

  /** An entry of the recording learned more, its status for instance. */
  changed(entry: Entry): void {
    if (this.#waiters.size > 0) this.#tell(entry, this.entries.lastIndexOf(entry))
  }

  /**
   * The first entry that matches, as soon as there is one.
   *
   * @throws after `timeoutMs`, and when the resource is disposed
   */
  waitFor(matches: (entry: Entry) => boolean, options: WaitForOptions = {}): Promise<Entry> {
    const { from = 0, timeoutMs = 4_000 } = options
    const present = this.entries.slice(from).find(matches)
    if (present !== undefined) return Promise.resolve(present)
    if (this.#closed) return Promise.reject(new Error(`No ${this.#what} matched before the end`))

    const wait = new Promise<Entry>((resolve, reject) => {
      const timer = setTimeout(() => {
        const seen = this.entries.length
        waiter.settle({
          error: new Error(`None of ${seen} matched in ${timeoutMs} ms: ${this.#what}`),
        })
      }, timeoutMs)
      const waiter: Waiter<Entry> = {
        matches,
        from,
        settle: (outcome) => {
          clearTimeout(timer)
          this.#waiters.delete(waiter)
          if ('entry' in outcome) resolve(outcome.entry)
          else reject(outcome.error)
        },
      }
      this.#waiters.add(waiter)
    })
    wait.catch(() => {}) // a test that has failed elsewhere no longer awaits it
    return wait
  }

  /** Rejects every wait. */
  close(): void {
    this.#closed = true
    for (const waiter of new Set(this.#waiters)) {
      waiter.settle({ error: new Error(`Disposed while waiting: ${this.#what}`) })
    }
  }

  #tell(entry: Entry, index: number): void {
    for (const waiter of new Set(this.#waiters)) {
      if (index >= waiter.from && waiter.matches(entry)) waiter.settle({ entry })
    }
  }
}
