/**
 * What a gateway stores. The parts are plain: sessions, files, paused runs and keys are built on them once, for all
 * stores. `MemoryGatewayStore` and `DiskGatewayStore` serve one process, `redisStore()` of `@x/mcp-gateway-redis` several.
 *
 * Operations reject with GatewayError `UNAVAILABLE` within a time limit if the store cannot be reached, and with
 * `CLOSED` after `close()`.
 */
export interface GatewayStore {
  readonly values: Values
  readonly logs: Logs
  /** Replaces `logs` and `messages` soon. */
  readonly eventLogs: EventLogs
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
  after(stream: string, eventId: string): Promise<readonly StreamEvent[] | undefined>
  /** The stream of an event, as far as it is still known. */
  streamOf(eventId: string): Promise<string | undefined>
  delete(stream: string): Promise<void>
}

export interface LogLimits {
  readonly maxEvents: number
  readonly ttlMs: number
}

export interface StreamEvent {
  readonly id: string
  readonly event: unknown
}

/**
 * Append-only logs of JSON events, which other processes can follow while they are written.
 *
 * A log ends `ttlMs` after its last event. Ids contain a hash of the name of the log, so clients do not learn the name.
 */
export interface EventLogs {
  /**
   * Begins a log. Returns the id of its beginning, which stands before its first event and counts as one of its events.
   * A log of the same name is replaced. Logs that no client reads need no `open`: the first `append` begins them.
   */
  open(log: string, header: LogHeader, limits: LogLimits): Promise<string>
  /**
   * Appends an event and returns its id. Ids of one log sort by time. If the store fails, the event may have been
   * appended.
   */
  append(log: string, event: unknown, options: AppendOptions): Promise<string>
  /** Returns the log of an event id. `undefined`: the event is not known, was dropped or belongs to a deleted log. */
  find(eventId: string): Promise<FoundLog | undefined>
  /** Returns the events after an id. `undefined`: the event of that id was dropped. */
  read(log: string, afterId: string): Promise<readonly LoggedEvent[] | undefined>
  /**
   * Calls `listener` for each event after `afterId`: first for those that exist, then for new ones, in order and once
   * each. Goes on by itself after a failure of the store. The log need not exist yet.
   *
   * @param afterId the id of an event, or `now` for new events only
   * @returns a function that ends it
   */
  tail(log: string, afterId: string, listener: LogListener): Promise<() => void>
  delete(log: string): Promise<void>
}

/** Facts that another process needs to continue or to end a log. */
export interface LogHeader {
  readonly session: string
  /** Process that writes the log. */
  readonly owner: string
  /** JSON-RPC ids of the requests that the log answers. */
  readonly requestIds: readonly (string | number)[]
}

export interface AppendOptions {
  readonly limits: LogLimits
  /** Nothing follows this event. */
  readonly isLast: boolean
}

export interface FoundLog {
  readonly log: string
  /** `undefined` for a log that was not opened. */
  readonly header: LogHeader | undefined
}

export interface LoggedEvent {
  readonly id: string
  readonly event: unknown
  /** Whether it is the last event of its log. */
  readonly isLast: boolean
}

export interface LogListener {
  onEvent(this: void, event: LoggedEvent): void
  /**
   * Events may have been dropped before they were delivered. Called before the next event. Also called after a long
   * failure of the store when that cannot be ruled out.
   */
  onGap(this: void): void
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
