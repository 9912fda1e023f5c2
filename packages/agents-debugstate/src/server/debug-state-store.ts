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

/**
 * Condition of a write on the stored version: RFC 9110, sections 13.1.1 and 13.1.2. Plain data, so that a store
 * can evaluate it where its values are.
 */
export interface Precondition {
  /** The stored version must be one of these. `'*'`: there must be a value. */
  readonly ifMatch?: readonly string[] | '*' | undefined
  /** The stored version must be none of these. `'*'`: there must be no value. */
  readonly ifNoneMatch?: readonly string[] | '*' | undefined
}

export interface PutOptions {
  /** Time after which the value expires. */
  readonly ttlMs: number
  /** @default none */
  readonly precondition?: Precondition | undefined
}

/** `conflict`: the precondition did not hold, and nothing was changed. */
export type PutOutcome = 'conflict' | { readonly version: string }
/** `conflict`: the precondition did not hold, and nothing was changed. `absent`: there was no value. */
export type DeleteOutcome = 'conflict' | 'deleted' | 'absent'

/**
 * Stores the values of the service. When the promise of a write resolves, the write survives a killed process. The
 * check of a precondition and the write are one step, also between processes that share a store. Expired values
 * count as missing. When a method rejects, the service reports the error to `onError` or the logger and answers 503.
 */
export interface DebugStateStore {
  get(address: DebugStateAddress): Promise<StoredValue | undefined>
  put(address: DebugStateAddress, bytes: Uint8Array, options: PutOptions): Promise<PutOutcome>
  delete(address: DebugStateAddress, precondition?: Precondition): Promise<DeleteOutcome>
  /** Returns the first `limit` entries of an agent, in the order of the bytes of their keys. */
  list(agentId: string, limit: number): Promise<readonly StoredEntry[]>
  /** Idempotent. Other methods reject afterwards. */
  close(): Promise<void>
}

/** Returns whether a precondition holds. `version` is that of the stored value, or `undefined` without a value. */
export function holds(
  precondition: Precondition | undefined,
  version: string | undefined,
): boolean {
  const { ifMatch, ifNoneMatch } = precondition ?? {}
  return (
    (ifMatch === undefined || matches(ifMatch, version)) &&
    (ifNoneMatch === undefined || !matches(ifNoneMatch, version))
  )
}

function matches(versions: readonly string[] | '*', version: string | undefined): boolean {
  if (version === undefined) return false
  return versions === '*' || versions.includes(version)
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

export interface DebugStateStoreErrorOptions extends ErrorOptions {
  /** Path of the file, if there is one. */
  readonly path?: string | undefined
}

/** A store cannot be used. The message is one line and says what to do. */
export class DebugStateStoreError extends Error {
  override readonly name = 'DebugStateStoreError'
  readonly code: DebugStateStoreErrorCode
  /** Path of the file, if there is one. The file was not changed. */
  readonly path: string | undefined

  constructor(
    code: DebugStateStoreErrorCode,
    message: string,
    options: DebugStateStoreErrorOptions = {},
  ) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined)
    this.code = code
    this.path = options.path
  }
}
