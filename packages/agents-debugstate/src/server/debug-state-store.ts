import { CodedError } from '@x/internal'

/** Names one value. Both parts are already checked (PROTOCOL.md, "Names"). */
export interface DebugStateAddress {
  readonly agentId: string
  readonly key: string
}

/**
 * Stores the values of the service. When the promise of a write resolves, the write survives a killed process. The
 * last write wins, also between processes that share a store. Expired values count as missing. When a method rejects,
 * the service logs the error and answers 503.
 */
export interface DebugStateStore {
  get(address: DebugStateAddress): Promise<Uint8Array | undefined>
  /** Stores a value, which expires after `ttlMs`. */
  put(address: DebugStateAddress, bytes: Uint8Array, ttlMs: number): Promise<void>
  /** Returns false if there was no value. */
  delete(address: DebugStateAddress): Promise<boolean>
  /** Idempotent. Other methods reject afterwards. */
  close(): Promise<void>
}

/** Why a store cannot be used. Stable: callers switch on it. The documentation says what to do about each code. */
export type DebugStateStoreErrorCode =
  | 'CLOSED' // the store was closed
  | 'UNAVAILABLE' // the file or the Redis server cannot be reached, or fails
  | 'TIMEOUT' // Redis did not answer in time, or another process locked the file for too long
  | 'DENIED' // the operating system or Redis refused access
  | 'READ_ONLY' // the file, its disk or the Redis server is read-only
  | 'FULL' // the disk, or the memory of Redis, is full
  | 'CORRUPT' // not a SQLite database, a damaged one, or an unexpected answer of Redis
  | 'FOREIGN' // a SQLite database, or keys in Redis, of another program
  | 'VERSION' // written by a version of this package that has other tables

/** A store cannot be used. The message is one line and says what to do. A file was not changed. */
export class DebugStateStoreError extends CodedError<DebugStateStoreErrorCode> {
  override readonly name = 'DebugStateStoreError'
}
