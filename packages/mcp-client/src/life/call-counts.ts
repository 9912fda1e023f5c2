import type { Epoch } from './epoch.ts'

/** How many calls are in flight in each epoch. A table is made for older ones only: most clients never have one. */
export class CallCounts {
  #newest: Epoch | undefined
  #inNewest = 0
  #older: Map<Epoch, number> | undefined

  /** A new epoch, in which there is none. */
  add(epoch: Epoch): void {
    const before = this.#newest
    if (before !== undefined && before !== epoch)
      (this.#older ??= new Map()).set(before, this.#inNewest)
    this.#newest = epoch
    this.#inNewest = 0
  }

  /** @returns `undefined` for an epoch that is not here (any more) */
  of(epoch: Epoch): number | undefined {
    return epoch === this.#newest ? this.#inNewest : this.#older?.get(epoch)
  }

  set(epoch: Epoch, count: number): void {
    if (epoch === this.#newest) this.#inNewest = count
    else (this.#older ??= new Map()).set(epoch, count)
  }

  delete(epoch: Epoch): void {
    if (epoch === this.#newest) this.#newest = undefined
    else this.#older?.delete(epoch)
  }

  /** Knows none of them any more. */
  takeAll(): readonly Epoch[] {
    const older = this.#older?.keys() ?? []
    const all = this.#newest === undefined ? [...older] : [...older, this.#newest]
    this.#newest = undefined
    this.#older = undefined
    return all
  }
}
