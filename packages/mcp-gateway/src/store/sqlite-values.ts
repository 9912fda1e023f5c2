import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { columnText } from '@x/internal'
import type { ListedValue, ListOptions, PutOptions, Values, Versioned } from './gateway-store.ts'
import { toJsonText } from './json-text.ts'
import { randomId } from './random-id.ts'

/** Values in a database that nobody else has open: between a look and a write of one call comes nothing. */
export class SqliteValues implements Values {
  readonly #now: () => number
  readonly #statements: Statements

  constructor(database: DatabaseSync, now: () => number) {
    this.#now = now
    this.#statements = statementsOf(database)
  }

  async get(key: string): Promise<Versioned | undefined> {
    return this.#live(key)
  }

  async put(key: string, value: unknown, options: PutOptions = {}): Promise<string | undefined> {
    const { ttlMs = Infinity, ifVersion } = options
    const text = toJsonText(value)
    if (ifVersion !== undefined && ifVersion !== (this.#live(key)?.version ?? null))
      return undefined
    const version = randomId()
    this.#statements.put.run(key, text, version, this.#now() + ttlMs)
    return version
  }

  async touch(key: string, ttlMs: number): Promise<boolean> {
    const now = this.#now()
    return this.#statements.touch.run(now + ttlMs, key, now).changes !== 0
  }

  async take(key: string): Promise<unknown> {
    const live = this.#live(key)
    if (live) this.#statements.delete.run(key)
    return live?.value
  }

  async delete(key: string, ifVersion?: string): Promise<boolean> {
    const live = this.#live(key)
    if (!live || (ifVersion !== undefined && ifVersion !== live.version)) return false
    this.#statements.delete.run(key)
    return true
  }

  async list(prefix: string, options: ListOptions = {}): Promise<readonly ListedValue[]> {
    const { after = '', limit = 1000 } = options
    const listed: ListedValue[] = []
    if (limit <= 0) return listed
    for (const row of this.#statements.list.iterate(prefix, after, this.#now())) {
      const key = columnText(row['key'])
      if (!key.startsWith(prefix)) break
      listed.push({ key, ...versionedFrom(row) })
      if (listed.length >= limit) break
    }
    return listed
  }

  async count(prefix: string): Promise<number> {
    let count = 0
    for (const row of this.#statements.keys.iterate(prefix, this.#now())) {
      if (!columnText(row['key']).startsWith(prefix)) break
      count++
    }
    return count
  }

  /** Removes at most so many that have ended. */
  sweep(limit: number): void {
    this.#statements.sweep.run(this.#now(), limit)
  }

  #live(key: string): Versioned | undefined {
    const row = this.#statements.get.get(key, this.#now())
    return row && versionedFrom(row)
  }
}

function versionedFrom(row: Readonly<Record<string, unknown>>): Versioned {
  const value: unknown = JSON.parse(columnText(row['text']))
  return { value, version: columnText(row['version']) }
}

interface Statements {
  readonly get: StatementSync
  readonly put: StatementSync
  readonly touch: StatementSync
  readonly delete: StatementSync
  readonly list: StatementSync
  readonly keys: StatementSync
  readonly sweep: StatementSync
}

function statementsOf(database: DatabaseSync): Statements {
  return {
    get: database.prepare('SELECT text, version FROM stored_value WHERE key = ? AND ends_at > ?'),
    put: database.prepare('INSERT OR REPLACE INTO stored_value VALUES (?, ?, ?, ?)'),
    touch: database.prepare('UPDATE stored_value SET ends_at = ? WHERE key = ? AND ends_at > ?'),
    delete: database.prepare('DELETE FROM stored_value WHERE key = ?'),
    list: database.prepare(
      `SELECT key, text, version FROM stored_value
       WHERE key >= ? AND key > ? AND ends_at > ? ORDER BY key`,
    ),
    keys: database.prepare(
      'SELECT key FROM stored_value WHERE key >= ? AND ends_at > ? ORDER BY key',
    ),
    sweep: database.prepare(
      `DELETE FROM stored_value WHERE key IN
         (SELECT key FROM stored_value WHERE ends_at <= ? LIMIT ?)`,
    ),
  }
}
