import { DatabaseSync } from 'node:sqlite'

/** Opens a database that several processes may use. Committed data survives `kill -9`. */
export function openDatabase(path: string, schema: string): DatabaseSync {
  const database = new DatabaseSync(path, { timeout: 5_000 })
  database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL')
  database.exec(schema)
  return database
}
