import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { columnNumber, columnText } from '@x/internal'
import type { FoundLog, LogLimits } from './gateway-store.ts'
import { parseFoundLog, toLogTag } from './local-logs.ts'
import type { LogRow, LogRows } from './local-logs.ts'

/** Added to files that an older version created. */
const TABLES = `
  CREATE TABLE IF NOT EXISTS event_log (
    tag TEXT PRIMARY KEY, head TEXT NOT NULL, ends_at REAL NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS event_log_ends_at ON event_log (ends_at);
  CREATE TABLE IF NOT EXISTS event_log_row (
    tag TEXT NOT NULL, number INTEGER NOT NULL, text TEXT NOT NULL, is_last INTEGER NOT NULL,
    ends_at REAL NOT NULL, PRIMARY KEY (tag, number)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS event_log_row_ends_at ON event_log_row (ends_at);`

/** Event logs in a database that only this process has open. */
export class SqliteLogRows implements LogRows {
  readonly #now: () => number
  readonly #database: DatabaseSync
  readonly #statements: Statements

  constructor(database: DatabaseSync, now: () => number) {
    this.#now = now
    this.#database = database
    database.exec(TABLES)
    this.#statements = prepare(database)
  }

  append(found: FoundLog, row: LogRow, limits: LogLimits): void {
    const tag = toLogTag(found.log)
    const now = this.#now()
    const endsAt = now + limits.ttlMs
    const { begin, insert, trim } = this.#statements
    this.#database.exec('BEGIN')
    try {
      begin.run(tag, JSON.stringify(found), endsAt)
      insert.run(tag, row.number, row.text, Number(row.isLast), endsAt)
      trim.run(tag, now, tag, limits.maxEvents)
      this.#database.exec('COMMIT')
    } catch (error) {
      this.#database.exec('ROLLBACK')
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

  /** Deletes at most so many events, and so many logs, that have ended. */
  sweep(limit: number): void {
    const now = this.#now()
    this.#statements.sweepRows.run(now, limit)
    this.#statements.sweepLogs.run(now, limit)
  }
}

interface Statements {
  readonly begin: StatementSync
  readonly insert: StatementSync
  readonly trim: StatementSync
  readonly find: StatementSync
  readonly after: StatementSync
  readonly delete: StatementSync
  readonly clear: StatementSync
  readonly sweepRows: StatementSync
  readonly sweepLogs: StatementSync
}

function prepare(database: DatabaseSync): Statements {
  return {
    begin: database.prepare(
      `INSERT INTO event_log VALUES (?, ?, ?)
       ON CONFLICT (tag) DO UPDATE SET ends_at = excluded.ends_at`,
    ),
    insert: database.prepare('INSERT INTO event_log_row VALUES (?, ?, ?, ?, ?)'),
    // The event with this offset from the end, and all before it, are too many.
    trim: database.prepare(
      `DELETE FROM event_log_row WHERE tag = ? AND (ends_at <= ? OR number <=
         (SELECT number FROM event_log_row WHERE tag = ? ORDER BY number DESC LIMIT 1 OFFSET ?))`,
    ),
    find: database.prepare(
      `SELECT head FROM event_log JOIN event_log_row USING (tag)
       WHERE tag = ? AND number = ? AND event_log.ends_at > ?`,
    ),
    after: database.prepare(
      `SELECT number, text, is_last FROM event_log_row
       WHERE tag = ? AND number > ? AND ends_at > ? ORDER BY number`,
    ),
    delete: database.prepare('DELETE FROM event_log WHERE tag = ?'),
    clear: database.prepare('DELETE FROM event_log_row WHERE tag = ?'),
    sweepRows: database.prepare(
      `DELETE FROM event_log_row WHERE (tag, number) IN
         (SELECT tag, number FROM event_log_row WHERE ends_at <= ? LIMIT ?)`,
    ),
    sweepLogs: database.prepare(
      'DELETE FROM event_log WHERE tag IN (SELECT tag FROM event_log WHERE ends_at <= ? LIMIT ?)',
    ),
  }
}
