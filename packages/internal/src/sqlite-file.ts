import { accessSync, closeSync, constants, mkdirSync, openSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import type * as Sqlite from 'node:sqlite'

/** How one program recognizes its own database files. */
export interface SqliteFileFormat {
  /** `PRAGMA application_id`: distinguishes files of this program from files of others. */
  readonly applicationId: number
  /** `PRAGMA user_version`: version of the tables. */
  readonly schemaVersion: number
  /** SQL that creates the tables of an empty file. */
  readonly schema: string
}

/** Why a SQLite file cannot be used. */
export type SqliteFileErrorCode =
  | 'CORRUPT' // damaged, or not a SQLite database
  | 'FOREIGN' // a database of another program
  | 'VERSION' // written by a version of this program that has other tables
  | 'DENIED' // missing permissions
  | 'READ_ONLY' // the file or its disk is read-only
  | 'FULL' // the disk is full
  | 'TIMEOUT' // another process held the lock for too long
  | 'UNAVAILABLE' // any other failure

/** A SQLite file cannot be used. The message names the file and says what to do. */
export class SqliteFileError extends Error {
  override readonly name = 'SqliteFileError'
  readonly code: SqliteFileErrorCode

  constructor(code: SqliteFileErrorCode, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

/** Time that a process waits for another process that writes. */
const BUSY_MS = 1000
/** Size to which SQLite cuts the write-ahead log back after a burst of writes. */
const LOG_BYTES = 8_388_608

export interface SqliteFileUse {
  /** `normal` may lose the last writes when the machine loses power. `full` does not, and is slower. */
  readonly synchronous: 'normal' | 'full'
  /** True keeps all other connections out, of this process and of others. */
  readonly isExclusive: boolean
}

/**
 * Opens a database file in WAL mode, or creates one that only its owner can read. A damaged file, or a file of
 * another program, is refused and never changed.
 *
 * Only SQLite opens a file that exists: when this process closes a file, the system drops all locks that it has on
 * the file, also those of other connections (https://www.sqlite.org/howtocorrupt.html, section 2.2).
 *
 * @throws SqliteFileError
 */
export function openSqliteFile(
  path: string,
  format: SqliteFileFormat,
  use: SqliteFileUse,
): Sqlite.DatabaseSync {
  try {
    createIfAbsent(path)
    accessSync(dirname(path), constants.W_OK) // SQLite keeps its log beside the file
    const { size } = statSync(path)
    if (size > 0 && size < SMALLEST_BYTES) throw corrupt(path)
    if (size > 0) checkContent(path, format)
    return prepareFile(path, size === 0 ? format : undefined, use)
  } catch (error) {
    const failure = toSqliteFileError(error, path)
    const isAboutAccess = failure.code === 'READ_ONLY' || failure.code === 'UNAVAILABLE'
    throw isAboutAccess ? toSqliteFileError(getAccessError(path) ?? error, path) : failure
  }
}

/** Returns the error of the system when the file is opened for writing: SQLite does not say what it was. */
function getAccessError(path: string): unknown {
  try {
    closeSync(openSync(path, 'r+'))
    return undefined
  } catch (error) {
    return error
  }
}

/** Converts an error of SQLite or of the file system. Keeps it as the `cause`. */
export function toSqliteFileError(error: unknown, path: string): SqliteFileError {
  if (error instanceof SqliteFileError) return error
  // The low 8 bits are the primary result code: https://www.sqlite.org/rescode.html
  const errcode = error instanceof Error && 'errcode' in error ? error.errcode : undefined
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  const key = typeof errcode === 'number' ? errcode & 0xff : String(code)
  if (key === SQLITE_CORRUPT || key === SQLITE_NOTADB) return corrupt(path, error)
  const message = error instanceof Error ? error.message : String(error)
  const [failure, reason] = FAILURES[key] ?? ['UNAVAILABLE', `cannot be used: ${message}`]
  return new SqliteFileError(failure, `${path} ${reason}`, { cause: error })
}

/** Loaded on first use: Node 22 prints a warning when it loads. */
function openDatabase(path: string, options: Sqlite.DatabaseSyncOptions): Sqlite.DatabaseSync {
  const { DatabaseSync } = process.getBuiltinModule('node:sqlite')
  return new DatabaseSync(path, { ...options, timeout: BUSY_MS })
}

function createIfAbsent(path: string): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  try {
    closeSync(openSync(path, 'wx', 0o600))
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error
  }
}

/** Opens the file read-only: opening a damaged file for writing could already change it. */
function checkContent(path: string, { applicationId, schemaVersion }: SqliteFileFormat): void {
  const database = openDatabase(path, { readOnly: true })
  const read = (pragma: string): unknown =>
    Object.values(database.prepare(`PRAGMA ${pragma}`).get() ?? {})[0]
  try {
    if (read('application_id') !== applicationId) {
      const message = `${path} is a database of another program: use another file`
      throw new SqliteFileError('FOREIGN', message)
    }
    const version = columnNumber(read('user_version'))
    if (version !== schemaVersion) {
      const [age, advice] =
        version > schemaVersion
          ? ['a newer', 'update this package, or']
          : ['an older', 'keep it, and']
      const message = `${path} was written by ${age} version, which has other tables: ${advice} use another file`
      throw new SqliteFileError('VERSION', message)
    }
    const result = read('quick_check(1)')
    if (result !== 'ok') throw corrupt(path, new Error(String(result)))
  } finally {
    database.close()
  }
}

function prepareFile(
  path: string,
  newFormat: SqliteFileFormat | undefined,
  { synchronous, isExclusive }: SqliteFileUse,
): Sqlite.DatabaseSync {
  const database = openDatabase(path, {})
  try {
    if (isExclusive) database.exec('PRAGMA locking_mode = EXCLUSIVE')
    if (newFormat !== undefined) {
      // Before the switch to WAL: then the header of the file itself names the program from the start.
      database.exec(`BEGIN IMMEDIATE;
        ${newFormat.schema}
        PRAGMA application_id = ${newFormat.applicationId};
        PRAGMA user_version = ${newFormat.schemaVersion};
        COMMIT;`)
    }
    database.exec(`PRAGMA journal_mode = WAL;
      PRAGMA synchronous = ${synchronous};
      PRAGMA journal_size_limit = ${LOG_BYTES};`)
    checkWritable(database)
    return database
  } catch (error) {
    database.close()
    throw error
  }
}

/** SQLite also opens a file that cannot be written, and fails at the first write. */
function checkWritable(database: Sqlite.DatabaseSync): void {
  try {
    database.exec('BEGIN IMMEDIATE; PRAGMA user_version = 0; ROLLBACK')
  } catch (error) {
    if (database.isTransaction) database.exec('ROLLBACK')
    // Another process may be writing at this moment.
    if (toSqliteFileError(error, '').code !== 'TIMEOUT') throw error
  }
}

/** Returns a column that contains text. */
export function columnText(value: unknown): string {
  if (typeof value === 'string') return value
  throw new TypeError('A column of the database does not contain text')
}

/** Returns a column that contains a number. */
export function columnNumber(value: unknown): number {
  if (typeof value === 'number') return value
  throw new TypeError('A column of the database does not contain a number')
}

function corrupt(path: string, cause?: unknown): SqliteFileError {
  const message = `${path} is damaged or not a database: move it away, or use another file`
  return new SqliteFileError('CORRUPT', message, { cause })
}

/** One page (https://www.sqlite.org/fileformat.html, section 1.3.2). SQLite takes a smaller file for an empty one. */
const SMALLEST_BYTES = 512
const SQLITE_CORRUPT = 11
const SQLITE_NOTADB = 26

type Failure = readonly [code: SqliteFileErrorCode, reason: string]

const BUSY: Failure = [
  'TIMEOUT',
  `was locked by another process for more than ${BUSY_MS} ms: try again later`,
]
const DENIED: Failure = [
  'DENIED',
  'and its folder must be readable and writable for the user of this process',
]
const READ_ONLY: Failure = ['READ_ONLY', 'cannot be written: the file or its disk is read-only']
const FULL: Failure = ['FULL', 'cannot be written: its disk is full']

/** Keys: primary result codes of SQLite, and error codes of the operating system. */
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
