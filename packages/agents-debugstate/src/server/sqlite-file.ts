import { accessSync, closeSync, constants, mkdirSync, openSync, readSync } from 'node:fs'
import { dirname } from 'node:path'
import type * as Sqlite from 'node:sqlite'
import { DebugStateStoreError } from './debug-state-store-error.ts'
import type { DebugStateStoreErrorCode } from './debug-state-store-error.ts'

/** In the header of our files, so that those of other programs are told apart: `MCPd`. */
const APPLICATION_ID = 0x4d435064
/** Of the tables below. */
const SCHEMA_VERSION = 1
/** How long a process waits for another one that writes; less than what its clients wait for it. */
const BUSY_MS = 1000
/** So much of the log is kept for use again after a burst of writes. */
const LOG_BYTES = 8_388_608

const SCHEMA = `
CREATE TABLE IF NOT EXISTS debug_state (
  agent_id TEXT NOT NULL,
  key TEXT NOT NULL,
  value BLOB NOT NULL,
  version TEXT NOT NULL,
  updated_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (agent_id, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS debug_state_expires_at ON debug_state (expires_at);
PRAGMA application_id = ${APPLICATION_ID};
PRAGMA user_version = ${SCHEMA_VERSION};
`

/** `PRAGMA synchronous`: what of the last writes survives. */
export type SqliteSynchronous = 'normal' | 'full'

/**
 * Opens a file of ours, or makes one; only its owner can read it. A file that is not ours, or not sound, is
 * reported and left exactly as it is.
 *
 * @throws DebugStateStoreError
 */
export function openSqliteFile(path: string, synchronous: SqliteSynchronous): Sqlite.DatabaseSync {
  try {
    const isNew = createIfAbsent(path) || headerOf(path).length === 0
    accessSync(dirname(path), constants.W_OK) // for the log
    if (!isNew) checkHeader(path, headerOf(path))
    // Read-only first: opening a damaged file for writing could already change it.
    if (!isNew) checkContent(path)
    return prepared(path, synchronous, isNew)
  } catch (error) {
    throw storeErrorFrom(error, path)
  }
}

/** What SQLite or the file system threw, as an error that names the file. */
export function storeErrorFrom(error: unknown, path: string): DebugStateStoreError {
  if (error instanceof DebugStateStoreError) return error
  const sqliteCode = sqliteCodeOf(error)
  if (sqliteCode === SQLITE_CORRUPT || sqliteCode === SQLITE_NOTADB) return corrupt(path, error)
  const { code, reason } = FAILURES[sqliteCode ?? systemCodeOf(error) ?? ''] ?? {
    code: 'UNAVAILABLE',
    reason: `cannot be used: ${error instanceof Error ? error.message : String(error)}`,
  }
  return new DebugStateStoreError(code, `${path} ${reason}`, { path, cause: error })
}

/** Loaded on first use: Node 22 prints a warning for it, and users of other stores need not see that. */
function sqlite(): typeof Sqlite {
  const module = process.getBuiltinModule('node:sqlite')
  if (module === undefined) {
    throw new DebugStateStoreError(
      'UNAVAILABLE',
      'node:sqlite is missing: Node 22.19 or newer is needed',
    )
  }
  return module
}

function createIfAbsent(path: string): boolean {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  try {
    closeSync(openSync(path, 'wx', 0o600))
    return true
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false
    throw error
  }
}

function headerOf(path: string): Buffer {
  // Nothing is written. But SQLite would open a file that cannot be, and fail at the first write.
  const file = openSync(path, 'r+')
  try {
    const header = Buffer.alloc(HEADER_BYTES)
    return header.subarray(0, readSync(file, header))
  } finally {
    closeSync(file)
  }
}

/** The fields are those of the database header in https://www.sqlite.org/fileformat.html, section 1.3. */
function checkHeader(path: string, header: Buffer): void {
  if (header.length < HEADER_BYTES || header.toString('latin1', 0, 16) !== MAGIC) {
    throw corrupt(path)
  }
  if (header.readUInt32BE(68) !== APPLICATION_ID) {
    const message = `${path} is a database of another program: name another file`
    throw new DebugStateStoreError('FOREIGN', message, { path })
  }
  if (header.readUInt32BE(60) > SCHEMA_VERSION) {
    const message = `${path} was written by a newer version: update this package, or name another file`
    throw new DebugStateStoreError('NEWER', message, { path })
  }
}

function checkContent(path: string): void {
  const database = new (sqlite().DatabaseSync)(path, { readOnly: true, timeout: BUSY_MS })
  try {
    const result = database.prepare('PRAGMA quick_check(1)').get()
    if (result?.['quick_check'] !== 'ok')
      throw corrupt(path, new Error(String(result?.['quick_check'])))
  } finally {
    database.close()
  }
}

function prepared(
  path: string,
  synchronous: SqliteSynchronous,
  isNew: boolean,
): Sqlite.DatabaseSync {
  const database = new (sqlite().DatabaseSync)(path, { timeout: BUSY_MS })
  try {
    // Before the switch to WAL, so that the header in the file itself says whose it is from the first moment.
    if (isNew) database.exec(`BEGIN IMMEDIATE;${SCHEMA}COMMIT;`)
    database.exec(
      `PRAGMA journal_mode = WAL; PRAGMA synchronous = ${synchronous}; PRAGMA journal_size_limit = ${LOG_BYTES};`,
    )
    return database
  } catch (error) {
    database.close()
    throw error
  }
}

const HEADER_BYTES = 100
const MAGIC = 'SQLite format 3\0'
const SQLITE_CORRUPT = 11
const SQLITE_NOTADB = 26

interface Failure {
  readonly code: DebugStateStoreErrorCode
  /** Goes on after the path. */
  readonly reason: string
}

const DENIED: Failure = {
  code: 'DENIED',
  reason: 'and its folder must be readable and writable for the user of this process',
}
const READ_ONLY: Failure = {
  code: 'READ_ONLY',
  reason: 'cannot be written: the file or its disk is read-only',
}
const FULL: Failure = { code: 'FULL', reason: 'cannot be written: its disk is full' }
const BUSY: Failure = {
  code: 'TIMEOUT',
  reason: `was held by another process for more than ${BUSY_MS} ms`,
}

/** By the result code of SQLite (https://www.sqlite.org/rescode.html), or the code of the operating system. */
const FAILURES: Readonly<Record<number | string, Failure>> = {
  5: BUSY,
  6: BUSY,
  8: READ_ONLY,
  13: FULL,
  EACCES: DENIED,
  EPERM: DENIED,
  EROFS: READ_ONLY,
  ENOSPC: FULL,
  EDQUOT: FULL,
}

function corrupt(path: string, cause?: unknown): DebugStateStoreError {
  const message = `${path} is damaged or not a database: move it away, or name another file`
  return new DebugStateStoreError('CORRUPT', message, { path, cause })
}

/** The primary result code, without the bits of the extended one. */
function sqliteCodeOf(error: unknown): number | undefined {
  return error instanceof Error && 'errcode' in error && typeof error.errcode === 'number'
    ? error.errcode & 0xff
    : undefined
}

function systemCodeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string'
    ? error.code
    : undefined
}
