import { resolve } from 'node:path'
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import type {
  DebugStateAddress,
  DebugStateStore,
  DeleteOutcome,
  PutOptions,
  PutOutcome,
  StoredEntry,
  StoredValue,
} from './debug-state-store.ts'
import { DebugStateStoreError } from './debug-state-store-error.ts'
import { holds } from './precondition.ts'
import type { Precondition } from './precondition.ts'
import { openSqliteFile, storeErrorFrom } from './sqlite-file.ts'
import type { SqliteSynchronous } from './sqlite-file.ts'
import { newVersion } from './version.ts'

export interface SqliteDebugStateStoreOptions {
  /**
   * `normal` survives a killed process, and may lose the last writes when the machine loses power;
   * `full` survives that too, and is slower. @default 'normal'
   */
  readonly synchronous?: SqliteSynchronous | undefined
  /** Milliseconds since the epoch. @default Date.now */
  readonly now?: (() => number) | undefined
}

/**
 * Keeps values in one SQLite file (WAL mode, so `-wal` and `-shm` lie beside it). Several processes may share it.
 * Expired values are taken out while others are written, a few hundred at most each minute: no timer.
 */
export class SqliteDebugStateStore implements DebugStateStore, AsyncDisposable {
  /** Absolute. */
  readonly path: string
  readonly #now: () => number
  readonly #database: DatabaseSync
  readonly #statements: Statements
  #nextSweepAt: number
  #isClosed = false

  /**
   * Opens the file, and makes it (and its folder) where there is none.
   *
   * @throws DebugStateStoreError when the file is damaged, not ours, or out of reach; it is left as it is
   */
  constructor(path: string, options: SqliteDebugStateStoreOptions = {}) {
    const { synchronous = 'normal', now = Date.now } = options
    this.path = resolve(path)
    this.#now = now
    this.#nextSweepAt = now()
    this.#database = openSqliteFile(this.path, synchronous)
    try {
      this.#statements = statementsOf(this.#database)
    } catch (error) {
      this.#database.close()
      throw storeErrorFrom(error, this.path)
    }
  }

  async get({ agentId, key }: DebugStateAddress): Promise<StoredValue | undefined> {
    const row = this.#guarded(() => this.#statements.get.get(agentId, key, this.#now()))
    return row && { bytes: bytesOf(row['value']), version: textOf(row['version']) }
  }

  async put(
    address: DebugStateAddress,
    bytes: Uint8Array,
    options: PutOptions,
  ): Promise<PutOutcome> {
    const { agentId, key } = address
    const now = this.#now()
    const version = newVersion()
    const put = (): void => {
      this.#statements.put.run(agentId, key, bytes, version, now, now + options.ttlMs)
    }
    return this.#guarded(() => {
      if (options.precondition === undefined) put()
      else if (!this.#writeIf(options.precondition, address, put).done) return 'conflict'
      if (now >= this.#nextSweepAt) this.#sweep(now)
      return { version }
    })
  }

  async delete(address: DebugStateAddress, precondition?: Precondition): Promise<DeleteOutcome> {
    const { agentId, key } = address
    return this.#guarded(() => {
      const { done, found } = this.#writeIf(precondition, address, () => {
        this.#statements.delete.run(agentId, key)
      })
      if (!done) return 'conflict'
      return found ? 'deleted' : 'absent'
    })
  }

  async list(agentId: string, limit: number): Promise<readonly StoredEntry[]> {
    const rows = this.#guarded(() => this.#statements.list.all(agentId, this.#now(), limit))
    return rows.map((row) => ({
      key: textOf(row['key']),
      bytes: numberOf(row['bytes']),
      updatedAt: numberOf(row['updated_at']),
      expiresAt: numberOf(row['expires_at']),
    }))
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#database.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /** Looks and writes in one transaction. IMMEDIATE: the look already holds the lock that the write needs. */
  #writeIf(
    precondition: Precondition | undefined,
    { agentId, key }: DebugStateAddress,
    write: () => void,
  ): { readonly done: boolean; readonly found: boolean } {
    this.#database.exec('BEGIN IMMEDIATE')
    try {
      const row = this.#statements.get.get(agentId, key, this.#now())
      const done = holds(precondition, row && textOf(row['version']))
      if (done) write()
      this.#database.exec('COMMIT')
      return { done, found: row !== undefined }
    } catch (error) {
      if (this.#database.isTransaction) this.#database.exec('ROLLBACK')
      throw error
    }
  }

  #sweep(now: number): void {
    const { changes } = this.#statements.sweep.run(now, SWEEP_ROWS)
    // A full batch means that there is more; the next write goes on with it.
    this.#nextSweepAt = Number(changes) < SWEEP_ROWS ? now + SWEEP_EVERY_MS : now
  }

  #guarded<Result>(work: () => Result): Result {
    if (this.#isClosed) {
      throw new DebugStateStoreError('CLOSED', 'The store is closed', { path: this.path })
    }
    try {
      return work()
    } catch (error) {
      throw storeErrorFrom(error, this.path)
    }
  }
}

const SWEEP_ROWS = 500
const SWEEP_EVERY_MS = 60_000

interface Statements {
  readonly get: StatementSync
  readonly put: StatementSync
  readonly delete: StatementSync
  readonly list: StatementSync
  readonly sweep: StatementSync
}

function statementsOf(database: DatabaseSync): Statements {
  return {
    get: database.prepare(
      'SELECT value, version FROM debug_state WHERE agent_id = ? AND key = ? AND expires_at > ?',
    ),
    // `coalesce`: Node 22 binds an empty value as NULL.
    put: database.prepare(
      `INSERT INTO debug_state (agent_id, key, value, version, updated_at, expires_at)
       VALUES (?, ?, coalesce(?, zeroblob(0)), ?, ?, ?)
       ON CONFLICT (agent_id, key) DO UPDATE SET value = excluded.value, version = excluded.version,
         updated_at = excluded.updated_at, expires_at = excluded.expires_at`,
    ),
    delete: database.prepare('DELETE FROM debug_state WHERE agent_id = ? AND key = ?'),
    list: database.prepare(
      `SELECT key, length(value) AS bytes, updated_at, expires_at FROM debug_state
       WHERE agent_id = ? AND expires_at > ? ORDER BY key LIMIT ?`,
    ),
    sweep: database.prepare(
      `DELETE FROM debug_state WHERE (agent_id, key) IN
         (SELECT agent_id, key FROM debug_state WHERE expires_at <= ? LIMIT ?)`,
    ),
  }
}

function bytesOf(value: unknown): Uint8Array {
  if (value instanceof Uint8Array) return value
  throw new TypeError('A column holds no bytes')
}

function textOf(value: unknown): string {
  if (typeof value === 'string') return value
  throw new TypeError('A column holds no text')
}

function numberOf(value: unknown): number {
  if (typeof value === 'number') return value
  throw new TypeError('A column holds no number')
}
