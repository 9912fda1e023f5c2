import { compareBytes } from './byte-order.ts'
import type { ListedValue, ListOptions, PutOptions, Values, Versioned } from './gateway-store.ts'
import { toJsonText } from './json-text.ts'

/** Keys that one sweep looks at. */
const SWEEP_KEYS = 1000

/** Values as JSON texts, so that nobody changes what another one has read. */
export class MemoryValues implements Values {
  readonly #now: () => number
  readonly #entries = new Map<string, Entry>()
  /** Of `#entries`, in order. */
  readonly #keys: string[] = []
  #versions = 0
  #sweptTo = 0

  constructor(now: () => number) {
    this.#now = now
  }

  async get(key: string): Promise<Versioned | undefined> {
    const entry = this.#live(key)
    return entry && versionedFrom(entry)
  }

  async put(key: string, value: unknown, options: PutOptions = {}): Promise<string | undefined> {
    const { ttlMs = Infinity, ifVersion } = options
    const text = toJsonText(value)
    const before = this.#live(key)
    if (ifVersion !== undefined && ifVersion !== (before?.version ?? null)) return undefined
    const version = `${++this.#versions}`
    if (!this.#entries.has(key)) this.#keys.splice(this.#firstFrom(key), 0, key)
    this.#entries.set(key, { text, version, endsAt: this.#now() + ttlMs })
    return version
  }

  async touch(key: string, ttlMs: number): Promise<boolean> {
    const entry = this.#live(key)
    if (entry) this.#entries.set(key, { ...entry, endsAt: this.#now() + ttlMs })
    return entry !== undefined
  }

  async take(key: string): Promise<unknown> {
    const entry = this.#live(key)
    if (!entry) return undefined
    this.#remove(key)
    return versionedFrom(entry).value
  }

  async delete(key: string, ifVersion?: string): Promise<boolean> {
    const entry = this.#live(key)
    if (!entry || (ifVersion !== undefined && ifVersion !== entry.version)) return false
    this.#remove(key)
    return true
  }

  async list(prefix: string, options: ListOptions = {}): Promise<readonly ListedValue[]> {
    const { after, limit = 1000 } = options
    const listed: ListedValue[] = []
    let at = this.#firstFrom(prefix)
    if (after !== undefined && compareBytes(after, prefix) >= 0) {
      at = this.#firstFrom(after)
      if (this.#keys[at] === after) at++
    }
    const now = this.#now()
    for (; listed.length < limit; at++) {
      const key = this.#keys[at]
      if (key === undefined || !key.startsWith(prefix)) break
      const entry = this.#entries.get(key)
      if (entry && entry.endsAt > now) listed.push({ key, ...versionedFrom(entry) })
    }
    return listed
  }

  async count(prefix: string): Promise<number> {
    const now = this.#now()
    let count = 0
    for (let at = this.#firstFrom(prefix); ; at++) {
      const key = this.#keys[at]
      if (key === undefined || !key.startsWith(prefix)) return count
      if ((this.#entries.get(key)?.endsAt ?? 0) > now) count++
    }
  }

  /** Looks at some keys, from where it stopped last time, and forgets those that have ended. */
  sweep(): void {
    const now = this.#now()
    if (this.#sweptTo >= this.#keys.length) this.#sweptTo = 0
    const seen = this.#keys.slice(this.#sweptTo, this.#sweptTo + SWEEP_KEYS)
    const live = seen.filter((key) => (this.#entries.get(key)?.endsAt ?? 0) > now)
    if (live.length < seen.length) {
      const kept = new Set(live)
      for (const key of seen) if (!kept.has(key)) this.#entries.delete(key)
      this.#keys.splice(this.#sweptTo, seen.length, ...live)
    }
    this.#sweptTo += live.length
  }

  /** How many are held, with those that have ended and were not swept yet. */
  get size(): number {
    return this.#entries.size
  }

  #live(key: string): Entry | undefined {
    const entry = this.#entries.get(key)
    if (!entry || entry.endsAt > this.#now()) return entry
    this.#remove(key)
    return undefined
  }

  #remove(key: string): void {
    this.#entries.delete(key)
    this.#keys.splice(this.#firstFrom(key), 1)
  }

  /** Place of the first key that is not before this one. */
  #firstFrom(key: string): number {
    let [low, high] = [0, this.#keys.length]
    while (low < high) {
      const middle = (low + high) >>> 1
      if (compareBytes(this.#keys[middle] ?? '', key) < 0) low = middle + 1
      else high = middle
    }
    return low
  }
}

interface Entry {
  readonly text: string
  readonly version: string
  readonly endsAt: number
}

function versionedFrom({ text, version }: Entry): Versioned {
  const value: unknown = JSON.parse(text)
  return { value, version }
}
