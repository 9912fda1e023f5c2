import { chmodSync, closeSync, lstatSync, mkdirSync, openSync } from 'node:fs'
import { dirname } from 'node:path'
import type * as Sqlite from 'node:sqlite'
import { GatewayError } from '../gateway-error.ts'

/** In the header of our files, so that those of other programs are told apart: `MCPg`. */
const APPLICATION_ID = 0x4d435067
/** Of the tables below. */
const SCHEMA_VERSION = 1

const SCHEMA = `
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
CREATE INDEX IF NOT EXISTS logged_event_ends_at ON logged_event (ends_at);
PRAGMA application_id = ${APPLICATION_ID};
PRAGMA user_version = ${SCHEMA_VERSION};
`

/**
 * Opens a file of ours for this process alone, or makes one. A killed process loses nothing that was
 * acknowledged; a machine that loses power may lose the last writes.
 *
 * @throws GatewayError `CONFIG`: another program's file, or in use by another process; `UNAVAILABLE`
 */
export function openSqliteFile(path: string): Sqlite.DatabaseSync {
  let database: Sqlite.DatabaseSync | undefined
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
    keepToOwner(path)
    database = new (sqlite().DatabaseSync)(path)
    database.exec('PRAGMA locking_mode = EXCLUSIVE; PRAGMA busy_timeout = 1000;')
    const id = numberOf(database.prepare('PRAGMA application_id').get()?.['application_id'])
    const version = numberOf(database.prepare('PRAGMA user_version').get()?.['user_version'])
    const isNew = id === 0 && version === 0 && isEmpty(database)
    if (!isNew && (id !== APPLICATION_ID || version !== SCHEMA_VERSION)) {
      throw new GatewayError(
        'CONFIG',
        `${path} belongs to another program, or another version of this one`,
      )
    }
    database.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; ${SCHEMA}`)
    return database
  } catch (error) {
    database?.close()
    throw sqliteErrorFrom(error, path)
  }
}

/**
 * Makes the file before SQLite does, which would let everybody on the machine read it in a folder that was there
 * before. A link in its place is not followed. What is there already is not opened: closing it would give up the
 * locks of this process.
 */
function keepToOwner(path: string): void {
  for (const each of [path, `${path}-wal`, `${path}-shm`]) {
    const found = lstatSync(each, { throwIfNoEntry: false })
    if (found === undefined) continue
    if (!found.isFile()) throw new GatewayError('UNAVAILABLE', `${each} is no file`)
    if ((found.mode & 0o077) !== 0 && found.uid === process.getuid?.()) chmodSync(each, OWNER_ONLY)
  }
  try {
    closeSync(openSync(path, 'wx', OWNER_ONLY))
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error
  }
}

const OWNER_ONLY = 0o600

/** What SQLite threw, as an error that names the file. */
export function sqliteErrorFrom(error: unknown, path: string): Error {
  if (GatewayError.is(error)) return error
  const sqliteCode = error instanceof Error && 'errcode' in error ? Number(error.errcode) & 0xff : 0
  if (sqliteCode === SQLITE_BUSY) {
    const message = `${path} is in use by another process: one folder serves one gateway`
    return new GatewayError('CONFIG', message, { cause: error })
  }
  if (sqliteCode === SQLITE_NOTADB) {
    return new GatewayError('CONFIG', `${path} is no database`, { cause: error })
  }
  return new GatewayError('UNAVAILABLE', `${path} cannot be used`, { cause: error })
}

const SQLITE_BUSY = 5
const SQLITE_NOTADB = 26

/** Loaded on first use: Node 22 prints a warning for it, and users of other stores need not see that. */
function sqlite(): typeof Sqlite {
  const module = process.getBuiltinModule('node:sqlite')
  if (module !== undefined) return module
  throw new GatewayError(
    'CONFIG',
    'node:sqlite is missing: a store on disk needs Node 22.19 or newer',
  )
}

function isEmpty(database: Sqlite.DatabaseSync): boolean {
  return database.prepare('SELECT 1 FROM sqlite_schema LIMIT 1').get() === undefined
}

export function textOf(value: unknown): string {
  if (typeof value === 'string') return value
  throw new TypeError('A column holds no text')
}

export function numberOf(value: unknown): number {
  if (typeof value === 'number') return value
  throw new TypeError('A column holds no number')
}
