import { randomId } from '../internal/random-hex.ts'
import { toJsonText } from './gateway-store.ts'
import type {
  EventLogs,
  ListedRecord,
  ListOptions,
  PutOptions,
  Records,
  Versioned,
} from './gateway-store.ts'

/** Storage of the records of one process, in the order of the bytes of their keys. */
export interface RecordRows {
  /** May return an expired row. */
  get(key: string): RecordRow | undefined
  set(key: string, row: RecordRow): void
  delete(key: string): void
  /** Yields rows whose keys begin with `prefix` and come after `after`, until none follows or the caller stops. */
  list(prefix: string, after: string): Iterable<readonly [key: string, row: RecordRow]>
  /** Returns the number of rows whose keys begin with `prefix`, without those that expired before `now`. */
  count(prefix: string, now: number): number
}

export interface RecordRow {
  /** JSON: a caller cannot change the value that another one has read. */
  readonly text: string
  readonly version: string
  /** Milliseconds since 1970, or Infinity. */
  readonly endsAt: number
}

/** Records that only this process reads and writes. So nothing changes between the read and the write of a call. */
export class LocalRecords implements Records {
  readonly #rows: RecordRows
  readonly #now: () => number
  readonly #logs: Pick<EventLogs, 'append'>

  constructor(rows: RecordRows, now: () => number, logs: Pick<EventLogs, 'append'>) {
    this.#rows = rows
    this.#now = now
    this.#logs = logs
  }

  async get(key: string): Promise<Versioned | undefined> {
    const row = this.#live(key)
    return row && toVersioned(row)
  }

  async put(key: string, value: unknown, options: PutOptions = {}): Promise<string | undefined> {
    const { ttlMs = Infinity, ifVersion, event } = options
    const text = toJsonText(value)
    if (ifVersion !== undefined && ifVersion !== (this.#live(key)?.version ?? null))
      return undefined
    const version = randomId()
    this.#rows.set(key, { text, version, endsAt: this.#now() + ttlMs })
    if (event) {
      await this.#logs.append(event.log, event.event, { limits: event.limits, isLast: false })
    }
    return version
  }

  async touch(key: string, ttlMs: number): Promise<boolean> {
    const row = this.#live(key)
    if (row) this.#rows.set(key, { ...row, endsAt: this.#now() + ttlMs })
    return row !== undefined
  }

  async take(key: string): Promise<unknown> {
    const row = this.#live(key)
    if (!row) return undefined
    this.#rows.delete(key)
    return toVersioned(row).value
  }

  async delete(key: string, ifVersion?: string): Promise<boolean> {
    const row = this.#live(key)
    if (!row || (ifVersion !== undefined && ifVersion !== row.version)) return false
    this.#rows.delete(key)
    return true
  }

  async list(prefix: string, options: ListOptions = {}): Promise<readonly ListedRecord[]> {
    const { after = '', limit = 1000 } = options
    const listed: ListedRecord[] = []
    if (limit <= 0) return listed
    const now = this.#now()
    for (const [key, row] of this.#rows.list(prefix, after)) {
      if (row.endsAt > now) listed.push({ key, ...toVersioned(row) })
      if (listed.length >= limit) break
    }
    return listed
  }

  async count(prefix: string): Promise<number> {
    return this.#rows.count(prefix, this.#now())
  }

  #live(key: string): RecordRow | undefined {
    const row = this.#rows.get(key)
    return row && row.endsAt > this.#now() ? row : undefined
  }
}

function toVersioned({ text, version }: RecordRow): Versioned {
  const value: unknown = JSON.parse(text)
  return { value, version }
}
