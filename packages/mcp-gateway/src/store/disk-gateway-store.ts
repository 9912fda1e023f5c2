import { chmodSync, lstatSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { DatabaseSync } from 'node:sqlite'
import { check, openSqliteFile, toSqliteFileError } from '@x/internal'
import type { Checks, SqliteFileFormat } from '@x/internal'
import { assertGatewayOptions, GatewayError } from '../errors.ts'
import { FileBlobs } from './file-blobs.ts'
import type { EventLogs, GatewayStore, Logs, Values } from './gateway-store.ts'
import { LocalLogs } from './local-logs.ts'
import { warnOfListener } from './memory-gateway-store.ts'
import { MemoryMessages } from './memory-messages.ts'
import { SqliteLogRows } from './sqlite-event-logs.ts'
import { SqliteLogs } from './sqlite-logs.ts'
import { SqliteValues } from './sqlite-values.ts'
import { TokenBuckets } from './token-buckets.ts'

export interface DiskGatewayStoreOptions {
  /** Milliseconds since 1970. @default Date.now */
  readonly now?: (() => number) | undefined
  /** What a listener of a message threw. @default a process warning */
  readonly onError?: ((error: unknown) => void) | undefined
}

const optionChecks: Checks<DiskGatewayStoreOptions & { folder: string }> = {
  folder: check.required(check.text),
  now: check.func,
  onError: check.func,
}

const SWEEP_EVERY_MS = 1000
const SWEEP_ROWS = 500

/**
 * Keeps what a gateway has to remember in a folder of one process: `gateway.db` (`node:sqlite`) and files
 * under `blobs/`. Messages and rates are those of the process. A process that is killed at any moment loses
 * nothing that was acknowledged.
 */
export class DiskGatewayStore implements GatewayStore, AsyncDisposable {
  readonly isShared = false
  readonly isDurable = true
  readonly values: Values
  readonly logs: Logs
  readonly eventLogs: EventLogs
  readonly messages: MemoryMessages
  readonly blobs: FileBlobs
  readonly rates: TokenBuckets
  readonly #database: DatabaseSync
  readonly #path: string
  readonly #localLogs: LocalLogs
  readonly #sweeping: NodeJS.Timeout

  /** @throws GatewayError `CONFIG`: the folder is another program's, or in use; `UNAVAILABLE` */
  constructor(folder: string, options: DiskGatewayStoreOptions = {}) {
    assertGatewayOptions('DiskGatewayStore', { folder, ...options }, optionChecks)
    const { now = Date.now, onError = warnOfListener } = options
    this.#path = join(resolve(folder), 'gateway.db')
    this.#database = openDatabase(this.#path)
    const values = new SqliteValues(this.#database, now)
    const logs = new SqliteLogs(this.#database, now)
    this.values = this.#told(values)
    this.logs = this.#told(logs)
    const logRows = new SqliteLogRows(this.#database, now)
    this.#localLogs = new LocalLogs(logRows, now, onError)
    this.eventLogs = this.#told(this.#localLogs)
    this.messages = new MemoryMessages(onError)
    this.blobs = new FileBlobs(join(resolve(folder), 'blobs'), now)
    this.rates = new TokenBuckets(now)
    this.#sweeping = setInterval(() => {
      try {
        values.sweep(SWEEP_ROWS)
        logs.sweep(SWEEP_ROWS)
        logRows.sweep(SWEEP_ROWS)
      } catch {
        // Reads leave out what has ended; the next round, or whoever writes next, meets the reason again.
      }
    }, SWEEP_EVERY_MS).unref()
  }

  async isReady(): Promise<boolean> {
    try {
      this.#database.prepare('SELECT 1').get()
      return true
    } catch {
      return false
    }
  }

  async close(): Promise<void> {
    if (!this.#database.isOpen) return
    clearInterval(this.#sweeping)
    this.messages.clear()
    this.#localLogs.close()
    this.#database.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /** The same, with the file's name in what SQLite throws. */
  #told<Part extends Values | Logs | EventLogs>(part: Part): Part {
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
  schemaVersion: 1,
  schema: `
    CREATE TABLE IF NOT EXISTS stored_value (
      key TEXT PRIMARY KEY, text TEXT NOT NULL, version TEXT NOT NULL, ends_at REAL NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS stored_value_ends_at ON stored_value (ends_at);
    CREATE TABLE IF NOT EXISTS log (
      stream TEXT PRIMARY KEY, tag TEXT NOT NULL UNIQUE, count INTEGER NOT NULL, ends_at REAL NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS logged_event (
      tag TEXT NOT NULL, number INTEGER NOT NULL, text TEXT NOT NULL, ends_at REAL NOT NULL,
      PRIMARY KEY (tag, number)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS logged_event_ends_at ON logged_event (ends_at);`,
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

/** Refuses a link in place of a file, and withdraws the permissions of other users from files that exist. */
function keepToOwner(path: string): void {
  for (const each of [path, `${path}-wal`, `${path}-shm`]) {
    const found = lstatSync(each, { throwIfNoEntry: false })
    if (found === undefined) continue
    if (!found.isFile()) throw new GatewayError('UNAVAILABLE', `${each} is not a regular file`)
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
  const isWrongFile = ['CORRUPT', 'FOREIGN', 'NEWER'].includes(cause.code)
  return new GatewayError(isWrongFile ? 'CONFIG' : 'UNAVAILABLE', cause.message, { cause })
}
