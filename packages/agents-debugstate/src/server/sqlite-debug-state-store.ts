import { randomUUID } from 'node:crypto'
import { resolve } from 'node:path'
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import {
  assertOptions,
  check,
  columnNumber,
  columnText,
  openSqliteFile,
  toSqliteFileError,
} from '@x/internal'
import type { Checks, SqliteFileFormat } from '@x/internal'
import { DebugStateStoreError, isExpected } from './debug-state-store.ts'
import type {
  DebugStateAddress,
  DebugStateStore,
  DeleteOutcome,
  ExpectedVersion,
  PutOptions,
  PutOutcome,
  StoredEntry,
  StoredValue,
} from './debug-state-store.ts'

/** `PRAGMA synchronous`: which writes survive a power cut. */
export type SqliteSynchronous = 'normal' | 'full'

export interface SqliteDebugStateStoreOptions {
  /**
   * `normal` survives a killed process, but may lose the last writes when the machine loses power.
   * `full` survives that too, and is slower. @default 'normal'
   */
  readonly synchronous?: SqliteSynchronous | undefined
}

const optionChecks: Checks<SqliteDebugStateStoreOptions> = {
  synchronous: check.oneOf('normal', 'full'),
}

const FILE_FORMAT: SqliteFileFormat = {
  applicationId: 0x4d435064, // `MCPd`
  schemaVersion: 1,
  schema: `
    CREATE TABLE IF NOT EXISTS debug_state (
      agent_id TEXT NOT NULL,
      key TEXT NOT NULL,
      value BLOB NOT NULL,
      version TEXT NOT NULL,
      updated_at INTEGER NOT NULL,
      expires_at INTEGER NOT NULL,
      PRIMARY KEY (agent_id, key)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS debug_state_expires_at ON debug_state (expires_at);`,
}

/**
 * Keeps values in one SQLite file in WAL mode, with `-wal` and `-shm` beside it. Several processes may share it.
 * All requests of one turn of the event loop are one transaction, and are answered after its commit. Each write
 * also removes at most 500 expired values, so no timer is needed.
 */
export class SqliteDebugStateStore implements DebugStateStore, AsyncDisposable {
  /** Absolute path of the file. */
  readonly path: string
  readonly #database: DatabaseSync
  readonly #statements: ReturnType<typeof prepareStatements>
  readonly #batches: SqliteBatches
  #nextSweepAt: number = Date.now()

  /**
   * Opens the file. Creates it and its folder if they are missing.
   *
   * @throws DebugStateStoreError when the file is damaged, belongs to another program, or cannot be used. The file
   * is not changed
   */
  constructor(path: string, options: SqliteDebugStateStoreOptions = {}) {
    assertOptions('SqliteDebugStateStore', options, optionChecks)
    const { synchronous = 'normal' } = options
    this.path = resolve(path)
    let database: DatabaseSync | undefined
    try {
      database = openSqliteFile(this.path, FILE_FORMAT, { synchronous, isExclusive: false })
      this.#database = database
      this.#statements = prepareStatements(database)
      this.#batches = new SqliteBatches(database)
    } catch (error) {
      database?.close()
      throw toStoreError(error, this.path)
    }
  }

  get({ agentId, key }: DebugStateAddress): Promise<StoredValue | undefined> {
    return this.#run('read', () => {
      const row = this.#statements.get.get(agentId, key, Date.now())
      return row && { bytes: toBytes(row['value']), version: columnText(row['version']) }
    })
  }

  put(address: DebugStateAddress, bytes: Uint8Array, options: PutOptions): Promise<PutOutcome> {
    const { agentId, key } = address
    const { expected, ttlMs } = options
    const version = randomUUID()
    return this.#run('write', () => {
      if (expected !== undefined && !isExpected(expected, this.#getVersion(address))) {
        return 'conflict'
      }
      const now = Date.now()
      this.#statements.put.run(agentId, key, bytes, version, now, now + ttlMs)
      if (now >= this.#nextSweepAt) this.#sweep(now)
      return { version }
    })
  }

  delete(address: DebugStateAddress, expected?: ExpectedVersion): Promise<DeleteOutcome> {
    return this.#run('write', () => {
      const version = this.#getVersion(address)
      if (!isExpected(expected, version)) return 'conflict'
      if (version === undefined) return 'absent'
      this.#statements.delete.run(address.agentId, address.key)
      return 'deleted'
    })
  }

  list(agentId: string, limit: number): Promise<readonly StoredEntry[]> {
    return this.#run('read', () =>
      this.#statements.list.all(agentId, Date.now(), limit).map((row) => ({
        key: columnText(row['key']),
        bytes: columnNumber(row['bytes']),
        updatedAt: columnNumber(row['updated_at']),
        expiresAt: columnNumber(row['expires_at']),
      })),
    )
  }

  async close(): Promise<void> {
    if (!this.#database.isOpen) return
    this.#batches.flush()
    this.#database.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #getVersion({ agentId, key }: DebugStateAddress): string | undefined {
    const row = this.#statements.version.get(agentId, key, Date.now())
    return row && columnText(row['version'])
  }

  #sweep(now: number): void {
    const { changes } = this.#statements.sweep.run(now, SWEEP_ROWS)
    // If the limit was reached, there may be more expired values: the next write removes them.
    this.#nextSweepAt = Number(changes) < SWEEP_ROWS ? now + SWEEP_EVERY_MS : now
  }

  async #run<Result>(kind: SqliteTask['kind'], work: () => Result): Promise<Result> {
    if (!this.#database.isOpen) {
      throw new DebugStateStoreError('CLOSED', 'The store is closed', { path: this.path })
    }
    try {
      return await this.#batches.run(kind, work)
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
  return new DebugStateStoreError(code, message, { path, cause })
}

function prepareStatements(database: DatabaseSync) {
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

function toBytes(value: unknown): Uint8Array {
  if (value instanceof Uint8Array) return value
  throw new TypeError('A column of the database does not contain bytes')
}

/** One step of a transaction. */
interface SqliteTask {
  /** A batch with a `write` takes the write lock first, so that a value cannot change between its read and its write. */
  readonly kind: 'read' | 'write'
  /**
   * Runs inside the transaction, and again if another task of the batch failed. Returns a function that reports
   * the result. It is called after the commit.
   */
  readonly work: () => () => void
  /** Called instead if nothing of the task was committed. */
  readonly reject: (error: unknown) => void
}

/** Most tasks of one transaction, so that other processes do not wait long. */
const MAX_TASKS = 256

/**
 * Runs all tasks of one turn of the event loop in one transaction: locking and committing cost more than most
 * tasks. Results are reported after the commit only. A transaction starts after all its tasks were added, so each
 * task sees every write that was acknowledged before it was added.
 */
export class SqliteBatches {
  readonly #database: DatabaseSync
  readonly #beginRead: StatementSync
  readonly #beginWrite: StatementSync
  readonly #commit: StatementSync
  readonly #waiting: SqliteTask[] = []
  #turn: NodeJS.Immediate | undefined

  constructor(database: DatabaseSync) {
    this.#database = database
    this.#beginRead = database.prepare('BEGIN')
    this.#beginWrite = database.prepare('BEGIN IMMEDIATE')
    this.#commit = database.prepare('COMMIT')
  }

  run<Result>(kind: SqliteTask['kind'], work: () => Result): Promise<Result> {
    return new Promise((resolveResult, reject) => {
      const report = (): (() => void) => {
        const result = work()
        return () => resolveResult(result)
      }
      this.#waiting.push({ kind, work: report, reject })
      this.#turn ??= setImmediate(() => this.#runTurn())
    })
  }

  /** Runs all waiting tasks now. */
  flush(): void {
    clearImmediate(this.#turn)
    while (this.#waiting.length > 0) this.#runTurn()
  }

  #runTurn(): void {
    this.#commitAll(this.#waiting.splice(0, MAX_TASKS))
    this.#turn = this.#waiting.length > 0 ? setImmediate(() => this.#runTurn()) : undefined
  }

  /**
   * If a task fails, the others run again without it. If the second run fails too, the fault is in the file: then
   * all writes fail, or all tasks if there are no writes. So values can be read while the disk is full.
   */
  #commitAll(tasks: readonly SqliteTask[], isSecond = false): void {
    const writes = tasks.filter(({ kind }) => kind === 'write')
    let reports: readonly (() => void)[]
    let current: SqliteTask | undefined
    try {
      ;(writes.length > 0 ? this.#beginWrite : this.#beginRead).run()
      reports = tasks.map((task) => {
        current = task
        return task.work()
      })
      current = undefined
      this.#commit.run()
    } catch (error) {
      if (this.#database.isTransaction) this.#database.exec('ROLLBACK')
      const affected = writes.length > 0 ? writes : tasks
      const failed = current === undefined || isSecond ? affected : [current]
      for (const task of failed) task.reject(error)
      const others = tasks.filter((task) => !failed.includes(task))
      if (others.length > 0) this.#commitAll(others, true)
      return
    }
    for (const report of reports) report()
  }
}
