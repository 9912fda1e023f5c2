/** Names one value. Both parts are already checked (PROTOCOL.md, "Names"). */
export interface DebugStateAddress {
  readonly agentId: string
  readonly key: string
}

/** One stored value. */
export interface StoredValue {
  readonly bytes: Uint8Array
  /** New with every write, never used again, not derived from the value: 1 to 64 of `[A-Za-z0-9_-]`. */
  readonly version: string
}

/** A value in a list. It does not contain the value itself, which is a secret. */
export interface StoredEntry {
  readonly key: string
  /** Size of the value. */
  readonly bytes: number
  /** Milliseconds since the epoch. */
  readonly updatedAt: number
  /** Milliseconds since the epoch. */
  readonly expiresAt: number
}

/** The version that a write replaces: `null` for no value, `undefined` for whatever is stored. */
export type ExpectedVersion = string | null | undefined

export interface PutOptions {
  /** Time after which the value expires. */
  readonly ttlMs: number
  readonly expected?: ExpectedVersion
}

/** `conflict`: another version is stored, and nothing was changed. */
export type PutOutcome = 'conflict' | { readonly version: string }
/** `absent`: there was no value, as expected. */
export type DeleteOutcome = 'conflict' | 'deleted' | 'absent'

/**
 * Stores the values of the service. When the promise of a write resolves, the write survives a killed process. The
 * comparison with the expected version and the write are one step, also between processes that share a store.
 * Expired values count as missing. When a method rejects, the service reports the error to `onError` or the logger
 * and answers 503.
 */
export interface DebugStateStore {
  get(address: DebugStateAddress): Promise<StoredValue | undefined>
  put(address: DebugStateAddress, bytes: Uint8Array, options: PutOptions): Promise<PutOutcome>
  delete(address: DebugStateAddress, expected?: ExpectedVersion): Promise<DeleteOutcome>
  /** Returns the first `limit` entries of an agent, in the order of the bytes of their keys. */
  list(agentId: string, limit: number): Promise<readonly StoredEntry[]>
  /** Idempotent. Other methods reject afterwards. */
  close(): Promise<void>
}

/** Returns whether the stored version is the expected one. `stored` is `undefined` without a value. */
export function isExpected(expected: ExpectedVersion, stored: string | undefined): boolean {
  return expected === undefined || expected === (stored ?? null)
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
  | 'NEWER' // written by a newer version of this package

/** A store cannot be used. The message is one line and says what to do. */
export class DebugStateStoreError extends Error {
  override readonly name = 'DebugStateStoreError'
  readonly code: DebugStateStoreErrorCode
  /** Path of the file, if there is one. The file was not changed. */
  readonly path: string | undefined

  constructor(
    code: DebugStateStoreErrorCode,
    message: string,
    options: ErrorOptions & { readonly path?: string } = {},
  ) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined)
    this.code = code
    this.path = options.path
  }
}
