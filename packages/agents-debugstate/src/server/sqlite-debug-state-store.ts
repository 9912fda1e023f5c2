import { resolve } from 'node:path'
import type { DatabaseSync } from 'node:sqlite'
import { openSqliteFile, toSqliteFileError } from '@x/internal'
import type { SqliteFileFormat } from '@x/internal'
import { DebugStateStoreError } from './debug-state-store.ts'
import type { DebugStateAddress, DebugStateStore } from './debug-state-store.ts'

const FILE_FORMAT: SqliteFileFormat = {
  applicationId: 0x4d435064, // `MCPd`
  schemaVersion: 2,
  schema: `
    CREATE TABLE IF NOT EXISTS debug_state (
      agent_id TEXT NOT NULL,
      key TEXT NOT NULL,
      value BLOB NOT NULL,
      updated_at INTEGER NOT NULL,
      expires_at INTEGER NOT NULL,
      PRIMARY KEY (agent_id, key)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS debug_state_expires_at ON debug_state (expires_at);`,
}

/**
 * Keeps values in one SQLite file in WAL mode, with `-wal` and `-shm` beside it. Several processes may share it.
 * Acknowledged writes survive a killed process; the last of them may be lost when the machine loses power. Writes also
 * remove expired values, at most 500 at a time, so no timer is needed.
 *
 * @example
 * ```ts
 * import { SqliteDebugStateStore } from '@x/agents-debugstate/server'
 *
 * const store = new SqliteDebugStateStore('/var/lib/debugstate/state.db')
 * ```
 */
export class SqliteDebugStateStore implements DebugStateStore, AsyncDisposable {
  /** Absolute path of the file. */
  readonly path: string
  readonly #database: DatabaseSync
  readonly #statements: ReturnType<typeof prepareStatements>
  #nextSweepAt: number = Date.now()

  /**
   * Opens the file. Creates it and its folder if they are missing.
   *
   * @throws DebugStateStoreError when the file is damaged, belongs to another program, or cannot be used. The file
   * is not changed
   */
  constructor(path: string) {
    this.path = resolve(path)
    let database: DatabaseSync | undefined
    try {
      database = openSqliteFile(this.path, FILE_FORMAT, {
        synchronous: 'normal',
        isExclusive: false,
      })
      this.#database = database
      this.#statements = prepareStatements(database)
    } catch (error) {
      database?.close()
      throw toStoreError(error, this.path)
    }
  }

  get({ agentId, key }: DebugStateAddress): Promise<Uint8Array | undefined> {
    return this.#run(() => {
      const row = this.#statements.get.get(agentId, key, Date.now())
      return row && toBytes(row['value'])
    })
  }

  put({ agentId, key }: DebugStateAddress, bytes: Uint8Array, ttlMs: number): Promise<void> {
    return this.#run(() => {
      const now = Date.now()
      this.#statements.put.run(agentId, key, bytes, now, now + ttlMs)
      if (now >= this.#nextSweepAt) this.#sweep(now)
    })
  }

  delete({ agentId, key }: DebugStateAddress): Promise<boolean> {
    return this.#run(
      () => Number(this.#statements.delete.run(agentId, key, Date.now()).changes) > 0,
    )
  }

  async close(): Promise<void> {
    if (this.#database.isOpen) this.#database.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #sweep(now: number): void {
    const { changes } = this.#statements.sweep.run(now, SWEEP_ROWS)
    // If the limit was reached, there may be more expired values: the next write removes them.
    this.#nextSweepAt = Number(changes) < SWEEP_ROWS ? now + SWEEP_EVERY_MS : now
  }

  async #run<Result>(work: () => Result): Promise<Result> {
    if (!this.#database.isOpen) throw new DebugStateStoreError('CLOSED', 'The store is closed')
    try {
      return work()
    } catch (error) {
      throw toStoreError(error, this.path)
    }
  }
}

const SWEEP_ROWS = 500
const SWEEP_EVERY_MS = 60_000

/** Converts an error of SQLite or of the file system. Keeps it as the `cause`. */
export function toStoreError(error: unknown, path: string): DebugStateStoreError {
  const { code, message, cause } = toSqliteFileError(error, path)
  return new DebugStateStoreError(code, message, { cause })
}

function prepareStatements(database: DatabaseSync) {
  return {
    get: database.prepare(
      'SELECT value FROM debug_state WHERE agent_id = ? AND key = ? AND expires_at > ?',
    ),
    // `coalesce`: Node 22 binds an empty value as NULL.
    put: database.prepare(
      `INSERT INTO debug_state (agent_id, key, value, updated_at, expires_at)
       VALUES (?, ?, coalesce(?, zeroblob(0)), ?, ?)
       ON CONFLICT (agent_id, key) DO UPDATE SET value = excluded.value,
         updated_at = excluded.updated_at, expires_at = excluded.expires_at`,
    ),
    delete: database.prepare(
      'DELETE FROM debug_state WHERE agent_id = ? AND key = ? AND expires_at > ?',
    ),
    sweep: database.prepare(
      `DELETE FROM debug_state WHERE (agent_id, key) IN
         (SELECT agent_id, key FROM debug_state WHERE expires_at <= ? LIMIT ?)`,
    ),
  }
}

function toBytes(value: unknown): Uint8Array {
  if (value instanceof Uint8Array) return value
  throw new TypeError('A column of the database does not contain bytes')
}
