import { chmodSync, lstatSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { DatabaseSync } from 'node:sqlite'
import { check, columnNumber, columnText, openSqliteFile, toSqliteFileError } from '@x/internal'
import type { Checks, SqliteFileFormat } from '@x/internal'
import { assertGatewayOptions, GatewayError } from '../errors.ts'
import { FileBlobs } from './blobs.ts'
import type { EventLogs, FoundLog, GatewayStore, LogLimits, Records } from './gateway-store.ts'
import { LocalLogs, parseFoundLog, toLogTag, type LogRow, type LogRows } from './local-logs.ts'
import { LocalRecords, type RecordRow, type RecordRows } from './local-records.ts'
import { warnAboutStore } from './memory-store.ts'
import { TokenBuckets } from './token-buckets.ts'

export interface DiskGatewayStoreOptions {
  /** Milliseconds since 1970. @default Date.now */
  readonly now?: (() => number) | undefined
  /** Called if a listener throws, or expired files cannot be deleted. @default a process warning */
  readonly onError?: ((error: unknown) => void) | undefined
}

const optionChecks: Checks<DiskGatewayStoreOptions & { folder: string }> = {
  folder: check.required(check.text),
  now: check.func,
  onError: check.func,
}

/** Record that readiness checks write. */
const PROBE_KEY = 'readiness'
/** Larger than a page of SQLite, so that the record needs room of its own. */
const PROBE_TEXT = ' '.repeat(4096)

const SWEEP_EVERY_MS = 1000
const SWEEP_ROWS = 500

/**
 * Keeps everything in a folder of one process: `gateway.db` (`node:sqlite`), and files under `blobs/`. Rates are counted
 * in memory. A write that was acknowledged survives a kill of the process at any moment.
 *
 * @example
 * ```ts
 * import { createGateway, DiskGatewayStore } from '@x/mcp-gateway'
 *
 * const store = new DiskGatewayStore('./data')
 * const gateway = createGateway({ store })
 * ```
 */
export class DiskGatewayStore implements GatewayStore, AsyncDisposable {
  readonly isShared = false
  readonly isDurable = true
  readonly records: Records
  readonly logs: EventLogs
  readonly blobs: FileBlobs
  readonly rates: TokenBuckets
  readonly #database: DatabaseSync
  readonly #path: string
  readonly #localLogs: LocalLogs
  readonly #sweeping: NodeJS.Timeout

  /** @throws GatewayError `CONFIG`: another program owns the folder, or a process uses it; `UNAVAILABLE` */
  constructor(folder: string, options: DiskGatewayStoreOptions = {}) {
    assertGatewayOptions('DiskGatewayStore', { folder, ...options }, optionChecks)
    const { now = Date.now, onError = warnAboutStore } = options
    this.#path = join(resolve(folder), 'gateway.db')
    this.#database = openDatabase(this.#path)
    const recordRows = new SqliteRecordRows(this.#database)
    const logRows = new SqliteLogRows(this.#database, now)
    this.#localLogs = new LocalLogs(logRows, now, onError)
    this.logs = this.#withErrors(this.#localLogs)
    this.records = this.#withErrors(new LocalRecords(recordRows, now, this.#localLogs))
    this.blobs = new FileBlobs(join(resolve(folder), 'blobs'), now, onError)
    this.rates = new TokenBuckets(now)
    this.#sweeping = setInterval(() => {
      try {
        recordRows.sweep(now())
        logRows.sweep(now())
      } catch {
        // Reads skip expired rows. The next write fails with the same error, and reports it.
      }
    }, SWEEP_EVERY_MS).unref()
  }

  async isReady(): Promise<boolean> {
    if (!this.#database.isOpen) return false
    // A full or read-only disk fails writes only. The record has ended, so that no read finds it.
    await this.records.put(PROBE_KEY, PROBE_TEXT, { ttlMs: 0 })
    await this.blobs.checkWritable()
    return true
  }

  async close(): Promise<void> {
    if (!this.#database.isOpen) return
    clearInterval(this.#sweeping)
    this.#localLogs.close()
    this.#database.close()
    await this.blobs[Symbol.asyncDispose]()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /** Returns the part with errors that name the file. */
  #withErrors<Part extends Records | EventLogs>(part: Part): Part {
    return new Proxy(part, {
      get: (target, name) => {
        const method: unknown = Reflect.get(target, name)
        if (typeof method !== 'function') return method
        return async (...args: unknown[]): Promise<unknown> => {
          if (!this.#database.isOpen) throw new GatewayError('CLOSED', 'The store is closed')
          try {
            return await Reflect.apply(method, target, args)
          } catch (error) {
            throw error instanceof TypeError ? error : toGatewayError(error, this.#path)
          }
        }
      },
    })
  }
}

const FILE_FORMAT: SqliteFileFormat = {
  applicationId: 0x4d435067, // `MCPg`
  schemaVersion: 2,
  schema: `
    CREATE TABLE IF NOT EXISTS stored_value (
      key TEXT PRIMARY KEY, text TEXT NOT NULL, version TEXT NOT NULL, ends_at REAL NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS stored_value_ends_at ON stored_value (ends_at);
    CREATE TABLE IF NOT EXISTS event_log (
      tag TEXT PRIMARY KEY, head TEXT NOT NULL, ends_at REAL NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS event_log_ends_at ON event_log (ends_at);
    CREATE TABLE IF NOT EXISTS event_log_row (
      tag TEXT NOT NULL, number INTEGER NOT NULL, text TEXT NOT NULL, is_last INTEGER NOT NULL,
      ends_at REAL NOT NULL, PRIMARY KEY (tag, number)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS event_log_row_ends_at ON event_log_row (ends_at);`,
}

/** Opens the database for this process alone. A killed process loses no write that was acknowledged. */
function openDatabase(path: string): DatabaseSync {
  try {
    keepToOwner(path)
    return openSqliteFile(path, FILE_FORMAT, { synchronous: 'normal', isExclusive: true })
  } catch (error) {
    throw toGatewayError(error, path)
  }
}

/** Refuses symbolic links, and withdraws the permissions of other users from existing files. */
function keepToOwner(path: string): void {
  for (const each of [path, `${path}-wal`, `${path}-shm`]) {
    const found = lstatSync(each, { throwIfNoEntry: false })
    if (found === undefined) continue
    if (!found.isFile())
      throw new GatewayError(
        'UNAVAILABLE',
        `${each} is not a regular file: delete it, or use another folder`,
      )
    if ((found.mode & 0o077) !== 0 && found.uid === process.getuid?.()) chmodSync(each, 0o600)
  }
}

/** Converts an error of SQLite or of the file system. Keeps it as the `cause`. */
function toGatewayError(error: unknown, path: string): Error {
  if (GatewayError.is(error)) return error
  const cause = toSqliteFileError(error, path)
  if (cause.code === 'TIMEOUT') {
    const message = `${path} is in use by another process: one folder serves one gateway`
    return new GatewayError('CONFIG', message, { cause })
  }
  const isWrongFile = ['CORRUPT', 'FOREIGN', 'VERSION'].includes(cause.code)
  return new GatewayError(isWrongFile ? 'CONFIG' : 'UNAVAILABLE', cause.message, { cause })
}

/** Records in a table. */
class SqliteRecordRows implements RecordRows {
  readonly #statements: ReturnType<typeof prepareRecords>

  constructor(database: DatabaseSync) {
    this.#statements = prepareRecords(database)
  }

  get(key: string): RecordRow | undefined {
    const row = this.#statements.get.get(key)
    return row && toRecordRow(row)
  }

  set(key: string, { text, version, endsAt }: RecordRow): void {
    this.#statements.set.run(key, text, version, endsAt)
  }

  delete(key: string): void {
    this.#statements.delete.run(key)
  }

  *list(prefix: string, after: string): Iterable<readonly [string, RecordRow]> {
    for (const row of this.#statements.list.iterate(prefix, after)) {
      const key = columnText(row['key'])
      if (!key.startsWith(prefix)) return
      yield [key, toRecordRow(row)]
    }
  }

  count(prefix: string, now: number): number {
    const row = this.#statements.count.get(prefix, `${prefix}\u{10ffff}`, now)
    return columnNumber(row?.['count'])
  }

  /** Deletes some expired records. */
  sweep(now: number): void {
    this.#statements.sweep.run(now, SWEEP_ROWS)
  }
}

function toRecordRow(row: Readonly<Record<string, unknown>>): RecordRow {
  const [text, version] = [columnText(row['text']), columnText(row['version'])]
  return { text, version, endsAt: columnNumber(row['ends_at']) }
}

function prepareRecords(database: DatabaseSync) {
  return {
    get: database.prepare('SELECT text, version, ends_at FROM stored_value WHERE key = ?'),
    set: database.prepare('INSERT OR REPLACE INTO stored_value VALUES (?, ?, ?, ?)'),
    delete: database.prepare('DELETE FROM stored_value WHERE key = ?'),
    list: database.prepare(
      `SELECT key, text, version, ends_at FROM stored_value WHERE key >= ? AND key > ? ORDER BY key`,
    ),
    count: database.prepare(
      'SELECT count(*) AS count FROM stored_value WHERE key >= ? AND key < ? AND ends_at > ?',
    ),
    sweep: database.prepare(
      `DELETE FROM stored_value WHERE key IN
         (SELECT key FROM stored_value WHERE ends_at <= ? LIMIT ?)`,
    ),
  }
}

/** Event logs in a database that only this process has open. */
class SqliteLogRows implements LogRows {
  readonly #now: () => number
  readonly #database: DatabaseSync
  readonly #statements: ReturnType<typeof prepareLogs>

  constructor(database: DatabaseSync, now: () => number) {
    this.#now = now
    this.#database = database
    this.#statements = prepareLogs(database)
  }

  append(found: FoundLog, row: LogRow, limits: LogLimits): void {
    const tag = toLogTag(found.log)
    const now = this.#now()
    const endsAt = now + limits.ttlMs
    const { begin, clear, extend, insert, trim } = this.#statements
    this.#database.exec('BEGIN')
    try {
      if (extend.run(endsAt, tag, now).changes === 0) {
        clear.run(tag)
        begin.run(tag, JSON.stringify(found), endsAt)
      }
      insert.run(tag, row.number, row.text, Number(row.isLast), endsAt)
      trim.run(tag, tag, limits.maxEvents)
      this.#database.exec('COMMIT')
    } catch (error) {
      // After some errors, such as a full disk, SQLite has already rolled back, and another ROLLBACK fails.
      if (this.#database.isTransaction) this.#database.exec('ROLLBACK')
      throw error
    }
  }

  find(tag: string, number: number): FoundLog | undefined {
    const row = this.#statements.find.get(tag, number, this.#now())
    return row && parseFoundLog(columnText(row['head']))
  }

  *after(tag: string, number: number): Iterable<LogRow> {
    for (const row of this.#statements.after.all(tag, number, this.#now())) {
      yield {
        number: columnNumber(row['number']),
        text: columnText(row['text']),
        isLast: row['is_last'] === 1,
      }
    }
  }

  delete(tag: string): void {
    this.#statements.delete.run(tag)
    this.#statements.clear.run(tag)
  }

  lastNumber(): number {
    const last = this.#database.prepare('SELECT max(number) AS last FROM event_log_row').get()
    return last?.['last'] == null ? 0 : columnNumber(last['last'])
  }

  /** Deletes some expired events and logs. */
  sweep(now: number): void {
    this.#statements.sweepRows.run(now, now, SWEEP_ROWS)
    this.#statements.sweepLogs.run(now, SWEEP_ROWS)
  }
}

function prepareLogs(database: DatabaseSync) {
  return {
    extend: database.prepare('UPDATE event_log SET ends_at = ? WHERE tag = ? AND ends_at > ?'),
    begin: database.prepare('INSERT OR REPLACE INTO event_log VALUES (?, ?, ?)'),
    insert: database.prepare('INSERT INTO event_log_row VALUES (?, ?, ?, ?, ?)'),
    // The event with this offset from the end, and all before it, are too many.
    trim: database.prepare(
      `DELETE FROM event_log_row WHERE tag = ? AND number <=
         (SELECT number FROM event_log_row WHERE tag = ? ORDER BY number DESC LIMIT 1 OFFSET ?)`,
    ),
    find: database.prepare(
      `SELECT head FROM event_log JOIN event_log_row USING (tag)
       WHERE tag = ? AND number = ? AND event_log.ends_at > ?`,
    ),
    after: database.prepare(
      `SELECT number, text, is_last FROM event_log JOIN event_log_row USING (tag)
       WHERE tag = ? AND number > ? AND event_log.ends_at > ? ORDER BY number`,
    ),
    delete: database.prepare('DELETE FROM event_log WHERE tag = ?'),
    clear: database.prepare('DELETE FROM event_log_row WHERE tag = ?'),
    // A log that lives keeps all of its events.
    sweepRows: database.prepare(
      `DELETE FROM event_log_row WHERE (tag, number) IN
         (SELECT tag, number FROM event_log_row WHERE ends_at <= ? AND tag NOT IN
           (SELECT tag FROM event_log WHERE ends_at > ?) LIMIT ?)`,
    ),
    sweepLogs: database.prepare(
      'DELETE FROM event_log WHERE tag IN (SELECT tag FROM event_log WHERE ends_at <= ? LIMIT ?)',
    ),
  }
}
