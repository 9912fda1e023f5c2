import { closeSync, mkdirSync, openSync, readSync } from 'node:fs'
import { dirname } from 'node:path'
import type * as Sqlite from 'node:sqlite'
import { DebugStateStoreError } from './debug-state-store-error.ts'

/** In the header of our files, so that those of other programs are told apart: `MCPd`. */
const APPLICATION_ID = 0x4d435064
/** Of the tables below. */
const SCHEMA_VERSION = 1
/** How long a process waits for another one that writes. */
const BUSY_MS = 2000

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
  const code = sqliteCodeOf(error)
  if (code === SQLITE_CORRUPT || code === SQLITE_NOTADB) return corrupt(path, error)
  const reason = error instanceof Error ? error.message : String(error)
  const message = `${path} cannot be used: ${reason}`
  return new DebugStateStoreError('UNAVAILABLE', message, { path, cause: error })
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
  const file = openSync(path, 'r')
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
    database.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = ${synchronous};`)
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
