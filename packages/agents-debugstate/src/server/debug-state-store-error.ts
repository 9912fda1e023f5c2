/**
 * Why a store cannot be used. Stable: callers switch on it. "What can go wrong in the service" in the
 * README says what to do.
 */
export type DebugStateStoreErrorCode =
  | 'CLOSED' // this side closed it
  | 'UNAVAILABLE' // the file or the Redis server cannot be reached, or fails
  | 'TIMEOUT' // Redis did not answer in time, or another process held the file for too long
  | 'DENIED' // the operating system or Redis does not let us in
  | 'READ_ONLY' // the file, its disk or the Redis server cannot be written
  | 'FULL' // no room on the disk, or in the memory of Redis
  | 'CORRUPT' // not a SQLite database, or a damaged one; an answer that is not Redis'
  | 'FOREIGN' // a SQLite database, or keys in Redis, of another program
  | 'NEWER' // written by a newer version of this package

export interface DebugStateStoreErrorOptions extends ErrorOptions {
  /** The file, where there is one. */
  readonly path?: string | undefined
}

/** A store cannot be used. The message is one line that says what to do. */
export class DebugStateStoreError extends Error {
  override readonly name = 'DebugStateStoreError'
  readonly code: DebugStateStoreErrorCode
  /** The file, where there is one. It has not been changed. */
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
