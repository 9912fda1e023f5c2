/** Can be in one `InFlight` at a time, which alone sets these. */
export interface Linked<T> {
  older: T | undefined
  newer: T | undefined
}

/**
 * What has begun and not ended, oldest first: a list that its items are the links of.
 *
 * Not a `Set` or `Map`: V8 links each table that one of them has outgrown to the next, so that a single
 * table in the old generation keeps what went through all later ones until a full collection. With calls
 * that live for a millisecond, that made most of what they allocate survive (measured: 6 of 14 KB a call).
 */
export class InFlight<T extends Linked<T>> {
  #oldest: T | undefined
  #newest: T | undefined

  get isEmpty(): boolean {
    return this.#newest === undefined
  }

  add(item: T): void {
    if (this.has(item)) return
    item.older = this.#newest
    if (this.#newest === undefined) this.#oldest = item
    else this.#newest.newer = item
    this.#newest = item
  }

  has(item: T): boolean {
    return item.newer !== undefined || item === this.#newest
  }

  /** Returns false if it was not there. */
  remove(item: T): boolean {
    if (!this.has(item)) return false
    const { older, newer } = item
    if (older === undefined) this.#oldest = newer
    else older.newer = newer
    if (newer === undefined) this.#newest = older
    else newer.older = older
    // An item that is over must not keep those alive that were beside it.
    item.older = undefined
    item.newer = undefined
    return true
  }

  /** The newest of which `isIt` is true. Walks the list: for what happens rarely. */
  find(isIt: (item: T) => boolean): T | undefined {
    let item = this.#newest
    while (item !== undefined && !isIt(item)) item = item.older
    return item
  }

  /** Those that are there now; they may be removed, and others added, while the list is gone through. */
  all(): T[] {
    const all: T[] = []
    for (let item = this.#oldest; item !== undefined; item = item.newer) all.push(item)
    return all
  }
}
