import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { columnNumber, columnText } from '@x/internal'
import { parseEventId, formatEventId, toPlace } from './local-logs.ts'
import type { LogLimits, Logs, StreamEvent } from './gateway-store.ts'
import { toJsonText } from './gateway-store.ts'
import { randomId } from '../internal/random-hex.ts'

/** Streams of events in a database that nobody else has open. */
export class SqliteLogs implements Logs {
  readonly #now: () => number
  readonly #database: DatabaseSync
  readonly #statements: Statements

  constructor(database: DatabaseSync, now: () => number) {
    this.#now = now
    this.#database = database
    this.#statements = statementsOf(database)
  }

  async append(stream: string, event: unknown, limits: LogLimits): Promise<string> {
    const text = toJsonText(event)
    const now = this.#now()
    const endsAt = now + limits.ttlMs
    this.#database.exec('BEGIN')
    try {
      const row = this.#statements.append.get(stream, randomId(), endsAt)
      const [tag, count] = [columnText(row?.['tag']), columnNumber(row?.['count'])]
      this.#statements.insert.run(tag, count, text, endsAt)
      this.#statements.trim.run(tag, count - limits.maxEvents, now)
      this.#database.exec('COMMIT')
      return formatEventId(tag, toPlace(count))
    } catch (error) {
      this.#database.exec('ROLLBACK')
      throw error
    }
  }

  async after(stream: string, eventId: string): Promise<readonly StreamEvent[] | undefined> {
    const at = parseEventId(eventId)
    if (!at || (await this.streamOf(eventId)) !== stream) return undefined
    const rows = this.#statements.after.all(at.tag, Number(at.place), this.#now())
    return rows.map((row) => {
      const event: unknown = JSON.parse(columnText(row['text']))
      return { id: formatEventId(at.tag, toPlace(columnNumber(row['number']))), event }
    })
  }

  async streamOf(eventId: string): Promise<string | undefined> {
    const at = parseEventId(eventId)
    const row = at && this.#statements.streamOf.get(at.tag, Number(at.place), this.#now())
    return row && columnText(row['stream'])
  }

  async delete(stream: string): Promise<void> {
    const row = this.#statements.delete.get(stream)
    if (row) this.#statements.clear.run(columnText(row['tag']))
  }

  /** Removes at most so many events, and streams without any, that have ended. */
  sweep(limit: number): void {
    const now = this.#now()
    this.#statements.sweepEvents.run(now, limit)
    this.#statements.sweepLogs.run(now, limit)
  }
}

interface Statements {
  readonly append: StatementSync
  readonly insert: StatementSync
  readonly trim: StatementSync
  readonly after: StatementSync
  readonly streamOf: StatementSync
  readonly delete: StatementSync
  readonly clear: StatementSync
  readonly sweepEvents: StatementSync
  readonly sweepLogs: StatementSync
}

function statementsOf(database: DatabaseSync): Statements {
  return {
    append: database.prepare(
      `INSERT INTO log VALUES (?, ?, 1, ?)
       ON CONFLICT (stream) DO UPDATE SET count = count + 1, ends_at = excluded.ends_at
       RETURNING tag, count`,
    ),
    insert: database.prepare('INSERT INTO logged_event VALUES (?, ?, ?, ?)'),
    trim: database.prepare(
      'DELETE FROM logged_event WHERE tag = ? AND (number <= ? OR ends_at <= ?)',
    ),
    after: database.prepare(
      `SELECT number, text FROM logged_event
       WHERE tag = ? AND number > ? AND ends_at > ? ORDER BY number`,
    ),
    streamOf: database.prepare(
      `SELECT stream FROM log JOIN logged_event USING (tag)
       WHERE tag = ? AND number = ? AND logged_event.ends_at > ?`,
    ),
    delete: database.prepare('DELETE FROM log WHERE stream = ? RETURNING tag'),
    clear: database.prepare('DELETE FROM logged_event WHERE tag = ?'),
    sweepEvents: database.prepare(
      `DELETE FROM logged_event WHERE (tag, number) IN
         (SELECT tag, number FROM logged_event WHERE ends_at <= ? LIMIT ?)`,
    ),
    sweepLogs: database.prepare(
      'DELETE FROM log WHERE stream IN (SELECT stream FROM log WHERE ends_at <= ? LIMIT ?)',
    ),
  }
}
