import { DatabaseSync } from 'node:sqlite'

/** Opens a database that several processes may use. Committed data survives `kill -9`. */
export function openDatabase(path: string, schema: string): DatabaseSync {
  const database = new DatabaseSync(path, { timeout: 5_000 })
  database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL')
  database.exec(schema)
  return database
}

/** Makes all changes of a function, or none of them. */
export function inTransaction<T>(database: DatabaseSync, change: () => T): T {
  database.exec('BEGIN IMMEDIATE')
  try {
    const result = change()
    database.exec('COMMIT')
    return result
  } catch (error) {
    database.exec('ROLLBACK')
    throw error
  }
}
