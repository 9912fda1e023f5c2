import { check, compareBytes, type Checks } from '@x/internal'
import { assertGatewayOptions, GatewayError } from '../errors.ts'
import { MemoryBlobs } from './blobs.ts'
import type { FoundLog, GatewayStore, LogLimits } from './gateway-store.ts'
import { LocalLogs, toLogTag, type LogRow, type LogRows } from './local-logs.ts'
import { LocalRecords, type RecordRow, type RecordRows } from './local-records.ts'
import { SortedKeys } from './sorted-keys.ts'
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

/**
 * Keeps everything in the memory of this process.
 *
 * @example
 * ```ts
 * import { bearerAuth, createGateway, MemoryGatewayStore } from '@x/mcp-gateway'
 *
 * const store = new MemoryGatewayStore()
 * const gateway = createGateway({ store, auth: bearerAuth(process.env['MCP_TOKEN']) })
 * ```
 */
export class MemoryGatewayStore implements GatewayStore, AsyncDisposable {
  readonly isShared = false
  readonly isDurable = false
  readonly records: LocalRecords
  readonly logs: LocalLogs
  readonly blobs: MemoryBlobs
  readonly rates: TokenBuckets
  readonly #now: () => number
  readonly #recordRows = new MemoryRecordRows()
  readonly #logRows: MemoryLogRows
  readonly #sweeping: NodeJS.Timeout
  #isClosed = false

  /** @throws GatewayError `CONFIG` for options that are unknown or have a wrong value */
  constructor(options: MemoryGatewayStoreOptions = {}) {
    assertGatewayOptions('MemoryGatewayStore', options, optionChecks)
    const { blobBytes = 268_435_456, now = Date.now, onError = warnAboutStore } = options
    this.#now = now
    this.#logRows = new MemoryLogRows(now)
    this.logs = new LocalLogs(this.#logRows, now, onError)
    this.records = new LocalRecords(this.#recordRows, now, this.logs)
    this.blobs = new MemoryBlobs(blobBytes, now)
    this.rates = new TokenBuckets(now)
    this.#sweeping = setInterval(() => this.sweep(), SWEEP_EVERY_MS).unref()
  }

  async isReady(): Promise<boolean> {
    return !this.#isClosed
  }

  /** Drops what has expired. Called every second. */
  sweep(): void {
    this.blobs.sweep()
    this.#recordRows.sweep(this.#now())
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

/** Reports a failure in the background, such as that of a listener, which must not stop other listeners or the writer. */
export function warnAboutStore(cause: unknown): void {
  const error = new GatewayError(
    'UNAVAILABLE',
    'The store failed in the background: see the cause',
    { cause },
  )
  process.emitWarning(error)
}

/** Records in memory. */
class MemoryRecordRows implements RecordRows {
  readonly #rows = new Map<string, RecordRow>()
  /** Keys of `#rows`. */
  readonly #keys = new SortedKeys()
  /** Number of keys for each prefix that was counted before, and has any. Each of these prefixes ends with a colon. */
  readonly #counts = new Map<string, number>()
  /** No record ends before this time. */
  #firstEnd = Infinity

  get(key: string): RecordRow | undefined {
    return this.#rows.get(key)
  }

  set(key: string, row: RecordRow): void {
    if (!this.#rows.has(key)) {
      this.#keys.add(key)
      this.#addToCounts(key, 1)
    }
    this.#rows.set(key, row)
    this.#firstEnd = Math.min(this.#firstEnd, row.endsAt)
  }

  delete(key: string): void {
    if (!this.#rows.delete(key)) return
    this.#keys.delete(key)
    this.#addToCounts(key, -1)
  }

  *list(prefix: string, after: string): Iterable<readonly [string, RecordRow]> {
    const isBehind = compareBytes(after, prefix) >= 0
    let key = isBehind ? this.#keys.firstAfter(after) : this.#keys.firstFrom(prefix)
    for (;;) {
      const row = key?.startsWith(prefix) ? this.#rows.get(key) : undefined
      if (key === undefined || !row) return
      yield [key, row]
      key = this.#keys.firstAfter(key)
    }
  }

  count(prefix: string, now: number): number {
    this.sweep(now)
    const known = this.#counts.get(prefix)
    if (known !== undefined) return known
    const count = [...this.list(prefix, '')].length
    if (count > 0 && prefix.endsWith(':')) this.#counts.set(prefix, count)
    return count
  }

  #addToCounts(key: string, change: 1 | -1): void {
    for (let at = key.indexOf(':'); at !== -1; at = key.indexOf(':', at + 1)) {
      const prefix = key.slice(0, at + 1)
      const count = this.#counts.get(prefix)
      if (count === undefined) continue
      if (count + change > 0) this.#counts.set(prefix, count + change)
      else this.#counts.delete(prefix)
    }
  }

  /** Drops expired records. */
  sweep(now: number): void {
    if (now < this.#firstEnd) return
    this.#firstEnd = Infinity
    for (const [key, { endsAt }] of this.#rows) {
      if (endsAt > now) this.#firstEnd = Math.min(this.#firstEnd, endsAt)
      else this.delete(key)
    }
  }
}

/** Characters of events that are kept. Above it, the log with the most is dropped. */
const MAX_CHARS = 67_108_864

/** Event logs in memory. */
export class MemoryLogRows implements LogRows {
  readonly #now: () => number
  readonly #maxChars: number
  readonly #logs = new Map<string, MemoryLog>()
  #chars = 0

  constructor(now: () => number, maxChars: number = MAX_CHARS) {
    this.#now = now
    this.#maxChars = maxChars
  }

  /** Number of logs that are held. */
  get size(): number {
    return this.#logs.size
  }

  append(found: FoundLog, row: LogRow, limits: LogLimits): void {
    const tag = toLogTag(found.log)
    const log: MemoryLog = this.#live(tag) ?? { found, rows: [], chars: 0, endsAt: 0 }
    this.#logs.set(tag, log)
    log.endsAt = this.#now() + limits.ttlMs
    log.rows.push(row)
    log.chars += row.text.length
    this.#chars += row.text.length
    const excess = Math.max(0, log.rows.length - limits.maxEvents)
    for (const { text } of log.rows.splice(0, excess)) {
      log.chars -= text.length
      this.#chars -= text.length
    }
    while (this.#chars > this.#maxChars) this.#dropLargest()
  }

  find(tag: string, number: number): FoundLog | undefined {
    const log = this.#live(tag)
    return log?.rows.some((row) => row.number === number) ? log.found : undefined
  }

  after(tag: string, number: number): Iterable<LogRow> {
    return this.#live(tag)?.rows.filter((row) => row.number > number) ?? []
  }

  delete(tag: string): void {
    this.#chars -= this.#logs.get(tag)?.chars ?? 0
    this.#logs.delete(tag)
  }

  lastNumber(): number {
    return 0
  }

  /** Drops expired logs. */
  sweep(): void {
    for (const tag of this.#logs.keys()) this.#live(tag)
  }

  #live(tag: string): MemoryLog | undefined {
    const log = this.#logs.get(tag)
    if (!log || log.endsAt > this.#now()) return log
    this.delete(tag)
    return undefined
  }

  #dropLargest(): void {
    let largest = ''
    let most = -1
    for (const [tag, { chars }] of this.#logs) {
      if (chars > most) [largest, most] = [tag, chars]
    }
    this.delete(largest)
  }
}

interface MemoryLog {
  readonly found: FoundLog
  readonly rows: LogRow[]
  chars: number
  endsAt: number
}
