import { check, compareBytes } from '@x/internal'
import type { Checks } from '@x/internal'
import { assertGatewayOptions, GatewayError } from '../errors.ts'
import { MemoryBlobs } from './blobs.ts'
import { toJsonText } from './gateway-store.ts'
import type {
  GatewayStore,
  ListedRecord,
  ListOptions,
  PutOptions,
  Records,
  Versioned,
} from './gateway-store.ts'
import { LocalLogs, MemoryLogRows } from './local-logs.ts'
import { TokenBuckets } from './token-buckets.ts'

export interface MemoryGatewayStoreOptions {
  /** Maximum bytes of files. More are refused with `QUOTA`. @default 256 MiB */
  readonly blobBytes?: number | undefined
  /** Milliseconds since 1970. @default Date.now */
  readonly now?: (() => number) | undefined
  /** Called with the error of a listener. @default a process warning */
  readonly onError?: ((error: unknown) => void) | undefined
}

const optionChecks: Checks<MemoryGatewayStoreOptions> = {
  blobBytes: check.number(),
  now: check.func,
  onError: check.func,
}

const SWEEP_EVERY_MS = 1000

/** Keeps everything in the memory of this process. */
export class MemoryGatewayStore implements GatewayStore, AsyncDisposable {
  readonly isShared = false
  readonly isDurable = false
  readonly records: MemoryRecords
  readonly logs: LocalLogs
  readonly blobs: MemoryBlobs
  readonly rates: TokenBuckets
  readonly #logRows: MemoryLogRows
  readonly #sweeping: NodeJS.Timeout
  #isClosed = false

  /** @throws GatewayError `CONFIG` for options that are unknown or have a wrong value */
  constructor(options: MemoryGatewayStoreOptions = {}) {
    assertGatewayOptions('MemoryGatewayStore', options, optionChecks)
    const { blobBytes = 268_435_456, now = Date.now, onError = warnAboutListener } = options
    this.records = new MemoryRecords(now)
    this.#logRows = new MemoryLogRows(now)
    this.logs = new LocalLogs(this.#logRows, now, onError)
    this.blobs = new MemoryBlobs(blobBytes)
    this.rates = new TokenBuckets(now)
    this.#sweeping = setInterval(() => this.sweep(), SWEEP_EVERY_MS).unref()
  }

  async isReady(): Promise<boolean> {
    return !this.#isClosed
  }

  /** Drops what has ended. Called every second. */
  sweep(): void {
    this.records.sweep()
    this.#logRows.sweep()
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearInterval(this.#sweeping)
    this.logs.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}

/** Reports the error of a listener, which must not stop other listeners or the writer. */
export function warnAboutListener(cause: unknown): void {
  const error = new GatewayError(
    'UNAVAILABLE',
    'A listener of the store threw an error: see the cause',
    { cause },
  )
  process.emitWarning(error)
}

/** Records as JSON texts, so that a caller cannot change what another one has read. */
export class MemoryRecords implements Records {
  readonly #now: () => number
  readonly #entries = new Map<string, Entry>()
  /** Keys of `#entries`, in the order of their bytes. */
  readonly #keys: string[] = []
  #versions = 0
  /** No record ends before this time. */
  #firstEnd = Infinity

  constructor(now: () => number) {
    this.#now = now
  }

  async get(key: string): Promise<Versioned | undefined> {
    const entry = this.#live(key)
    return entry && toVersioned(entry)
  }

  async put(key: string, value: unknown, options: PutOptions = {}): Promise<string | undefined> {
    const { ttlMs = Infinity, ifVersion } = options
    const text = toJsonText(value)
    const before = this.#live(key)
    if (ifVersion !== undefined && ifVersion !== (before?.version ?? null)) return undefined
    const version = `${++this.#versions}`
    if (!this.#entries.has(key)) this.#keys.splice(this.#firstFrom(key), 0, key)
    this.#set(key, { text, version, endsAt: this.#now() + ttlMs })
    return version
  }

  async touch(key: string, ttlMs: number): Promise<boolean> {
    const entry = this.#live(key)
    if (entry) this.#set(key, { ...entry, endsAt: this.#now() + ttlMs })
    return entry !== undefined
  }

  async take(key: string): Promise<unknown> {
    const entry = this.#live(key)
    if (!entry) return undefined
    this.#remove(key)
    return toVersioned(entry).value
  }

  async delete(key: string, ifVersion?: string): Promise<boolean> {
    const entry = this.#live(key)
    if (!entry || (ifVersion !== undefined && ifVersion !== entry.version)) return false
    this.#remove(key)
    return true
  }

  async list(prefix: string, options: ListOptions = {}): Promise<readonly ListedRecord[]> {
    const { after, limit = 1000 } = options
    const listed: ListedRecord[] = []
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
      if (entry && entry.endsAt > now) listed.push({ key, ...toVersioned(entry) })
    }
    return listed
  }

  async count(prefix: string): Promise<number> {
    this.sweep()
    return this.#firstFrom(`${prefix}\u{10ffff}`) - this.#firstFrom(prefix)
  }

  /** Drops records that have ended. */
  sweep(): void {
    const now = this.#now()
    if (now < this.#firstEnd) return
    this.#firstEnd = Infinity
    let kept = 0
    for (const key of this.#keys) {
      const { endsAt = 0 } = this.#entries.get(key) ?? {}
      if (endsAt <= now) {
        this.#entries.delete(key)
        continue
      }
      this.#keys[kept++] = key
      this.#firstEnd = Math.min(this.#firstEnd, endsAt)
    }
    this.#keys.length = kept
  }

  /** Number of records, with those that have ended since the last sweep. */
  get size(): number {
    return this.#entries.size
  }

  #live(key: string): Entry | undefined {
    const entry = this.#entries.get(key)
    if (!entry || entry.endsAt > this.#now()) return entry
    this.#remove(key)
    return undefined
  }

  #set(key: string, entry: Entry): void {
    this.#entries.set(key, entry)
    this.#firstEnd = Math.min(this.#firstEnd, entry.endsAt)
  }

  #remove(key: string): void {
    this.#entries.delete(key)
    this.#keys.splice(this.#firstFrom(key), 1)
  }

  /** Returns the index of the first key that is not before `key`. */
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

function toVersioned({ text, version }: Entry): Versioned {
  const value: unknown = JSON.parse(text)
  return { value, version }
}
