/**
 * What a gateway keeps outside of a call: sessions, waiting runs, names, artifacts, one-time codes. A store
 * knows none of them: it has plain parts, on which the gateway writes each of those once. Ships for one process
 * (`MemoryGatewayStore`; `DiskGatewayStore`, which outlives it) and for several (`RedisGatewayStore`).
 *
 * What cannot be reached rejects with GatewayError `UNAVAILABLE`, within a bound; after `close()`, with `CLOSED`.
 */
export interface GatewayStore {
  readonly values: Values
  readonly logs: Logs
  readonly messages: Messages
  readonly blobs: Blobs
  readonly rates: Rates
  /** Whether other processes see what is written here. */
  readonly isShared: boolean
  /** Whether what is written here is still there after a restart: sessions go on then. @default isShared */
  readonly isDurable?: boolean | undefined
  /** Whether it can be used now; for readiness. Never throws. */
  isReady(): Promise<boolean>
  close(): Promise<void>
}

/** Small JSON values by key, each with an end. Keys are sorted by their bytes. */
export interface Values {
  get(key: string): Promise<Versioned | undefined>
  /** @returns the new version; `undefined` if `ifVersion` did not hold */
  put(key: string, value: unknown, options?: PutOptions): Promise<string | undefined>
  /** Moves the end without touching value and version. @returns whether it was there */
  touch(key: string, ttlMs: number): Promise<boolean>
  /** Reads and removes in one step: whoever gets the value is the only one. */
  take(key: string): Promise<unknown>
  /** @returns whether it was there, in this version if one is given */
  delete(key: string, ifVersion?: string): Promise<boolean>
  /** Entries whose key begins so, in order, at most `limit` (default 1000) after `after`. */
  list(prefix: string, options?: ListOptions): Promise<readonly ListedValue[]>
  /** How many entries have a key that begins so; of those that ended a moment ago some may be counted. */
  count(prefix: string): Promise<number>
}

export interface PutOptions {
  /** @default never ends */
  readonly ttlMs?: number | undefined
  /** Only if the value still has this version; `null`: only if there is none. @default in any case */
  readonly ifVersion?: string | null | undefined
}

export interface ListOptions {
  readonly after?: string | undefined
  readonly limit?: number | undefined
}

export interface Versioned {
  readonly value: unknown
  readonly version: string
}

export interface ListedValue extends Versioned {
  readonly key: string
}

/** Events in order, for clients that come back to a stream. */
export interface Logs {
  /** @returns the id of the event, which is unique over all streams and sorts by time in its own */
  append(stream: string, event: unknown, limits: LogLimits): Promise<string>
  /** What came after an event. `undefined`: the event is not known (any more). */
  after(stream: string, eventId: string): Promise<readonly LoggedEvent[] | undefined>
  /** The stream of an event, as far as it is still known. */
  streamOf(eventId: string): Promise<string | undefined>
  delete(stream: string): Promise<void>
}

export interface LogLimits {
  readonly maxEvents: number
  readonly ttlMs: number
}

export interface LoggedEvent {
  readonly id: string
  readonly event: unknown
}

/** Tells all processes; who is not there does not hear of it. */
export interface Messages {
  publish(topic: string, message: unknown): Promise<void>
  /** @returns the end of the subscription. `onGap`: messages may have been lost, look again. */
  subscribe(
    topic: string,
    listener: (message: unknown) => void,
    onGap?: () => void,
  ): Promise<() => void>
}

/**
 * Bytes, each write under an id of its own. Streams both ways. That the same bytes are kept once is the
 * business of whoever counts who has them: an id that nobody else can have got is safe to delete.
 */
export interface Blobs {
  /** @throws what `bytes` throws, and then nothing is kept; more bytes than `limit`: GatewayError `LIMIT` */
  write(bytes: AsyncIterable<Uint8Array>, limit: number): Promise<WrittenBlob>
  /** `undefined`: not there. A range ends at the last byte there is. */
  read(id: string, range?: ByteRange): Promise<AsyncIterable<Uint8Array> | undefined>
  /** Harmless where there is none. */
  delete(id: string): Promise<void>
}

export interface WrittenBlob {
  readonly id: string
  /** hex */
  readonly sha256: string
  /** bytes */
  readonly size: number
}

/** First and last byte, inclusive. */
export interface ByteRange {
  readonly first: number
  readonly last: number
}

/** Token buckets. */
export interface Rates {
  /** @returns 0 if it may go on, else the milliseconds until it may */
  take(bucket: string, rate: Rate): Promise<number>
}

export interface Rate {
  readonly perMinute: number
  /** What may be taken at once. @default perMinute */
  readonly burst?: number | undefined
}
