import { assertOptions, check } from '@x/internal'
import type { Checks } from '@x/internal'
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
import { SqliteBatches } from './sqlite-batches.ts'
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

const optionChecks: Checks<SqliteDebugStateStoreOptions> = {
  synchronous: check.oneOf('normal', 'full'),
  now: check.func,
}

/**
 * Keeps values in one SQLite file (WAL mode, so `-wal` and `-shm` lie beside it). Several processes may share it.
 * What is asked in one turn of the event loop is one transaction, and is answered once that is committed.
 * Expired values are taken out while others are written, 500 at most with one write: no timer.
 */
export class SqliteDebugStateStore implements DebugStateStore, AsyncDisposable {
  /** Absolute. */
  readonly path: string
  readonly #now: () => number
  readonly #database: DatabaseSync
  readonly #statements: Statements
  readonly #batches: SqliteBatches
  #nextSweepAt: number
  #isClosed = false

  /**
   * Opens the file, and makes it (and its folder) where there is none.
   *
   * @throws DebugStateStoreError when the file is damaged, not ours, or out of reach; it is left as it is
   */
  constructor(path: string, options: SqliteDebugStateStoreOptions = {}) {
    assertOptions('SqliteDebugStateStore', options, optionChecks)
    const { synchronous = 'normal', now = Date.now } = options
    this.path = resolve(path)
    this.#now = now
    this.#nextSweepAt = now()
    this.#database = openSqliteFile(this.path, synchronous)
    try {
      this.#statements = statementsOf(this.#database)
      this.#batches = new SqliteBatches(this.#database)
    } catch (error) {
      this.#database.close()
      throw storeErrorFrom(error, this.path)
    }
  }

  get({ agentId, key }: DebugStateAddress): Promise<StoredValue | undefined> {
    return this.#inBatch('read', () => {
      const row = this.#statements.get.get(agentId, key, this.#now())
      return row && { bytes: bytesOf(row['value']), version: textOf(row['version']) }
    })
  }

  put(address: DebugStateAddress, bytes: Uint8Array, options: PutOptions): Promise<PutOutcome> {
    const { agentId, key } = address
    const version = newVersion()
    return this.#inBatch('write', () => {
      const now = this.#now()
      if (options.precondition !== undefined) {
        if (!holds(options.precondition, this.#versionAt(address))) return 'conflict'
      }
      this.#statements.put.run(agentId, key, bytes, version, now, now + options.ttlMs)
      if (now >= this.#nextSweepAt) this.#sweep(now)
      return { version }
    })
  }

  delete(address: DebugStateAddress, precondition?: Precondition): Promise<DeleteOutcome> {
    return this.#inBatch('write', () => {
      const version = this.#versionAt(address)
      if (!holds(precondition, version)) return 'conflict'
      if (version === undefined) return 'absent'
      this.#statements.delete.run(address.agentId, address.key)
      return 'deleted'
    })
  }

  list(agentId: string, limit: number): Promise<readonly StoredEntry[]> {
    return this.#inBatch('read', () =>
      this.#statements.list.all(agentId, this.#now(), limit).map((row) => ({
        key: textOf(row['key']),
        bytes: numberOf(row['bytes']),
        updatedAt: numberOf(row['updated_at']),
        expiresAt: numberOf(row['expires_at']),
      })),
    )
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#batches.close()
    this.#database.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #versionAt({ agentId, key }: DebugStateAddress): string | undefined {
    const row = this.#statements.version.get(agentId, key, this.#now())
    return row && textOf(row['version'])
  }

  #sweep(now: number): void {
    const { changes } = this.#statements.sweep.run(now, SWEEP_ROWS)
    // A full batch means that there is more; the next write goes on with it.
    this.#nextSweepAt = Number(changes) < SWEEP_ROWS ? now + SWEEP_EVERY_MS : now
  }

  #inBatch<Result>(kind: 'read' | 'write', work: () => Result): Promise<Result> {
    return new Promise<Result>((tell, reject) => {
      if (this.#isClosed) {
        const message = 'The store is closed'
        return reject(new DebugStateStoreError('CLOSED', message, { path: this.path }))
      }
      this.#batches.add({
        kind,
        work: () => {
          const result = work()
          return () => tell(result)
        },
        fail: (error) => reject(storeErrorFrom(error, this.path)),
      })
    })
  }
}

const SWEEP_ROWS = 500
const SWEEP_EVERY_MS = 60_000

interface Statements {
  readonly get: StatementSync
  readonly version: StatementSync
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
    version: database.prepare(
      'SELECT version FROM debug_state WHERE agent_id = ? AND key = ? AND expires_at > ?',
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
