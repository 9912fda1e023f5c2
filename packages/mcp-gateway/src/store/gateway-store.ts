/**
 * What a gateway keeps outside of a call: sessions, waiting runs, names, artifacts, one-time codes. A store
 * knows none of them: it has four plain parts, on which the gateway writes each of those once. Ships for one
 * process (`MemoryGatewayStore`, with files in a folder if it is given one) and for several (`RedisGatewayStore`).
 */
export interface GatewayStore {
  readonly values: Values
  readonly logs: Logs
  readonly messages: Messages
  readonly blobs: Blobs
  readonly rates: Rates
  /** Whether other processes see what is written here. */
  readonly isShared: boolean
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
  delete(key: string): Promise<boolean>
  /** Entries whose key begins so, in order, at most `limit` (default 1000) after `after`. */
  list(prefix: string, options?: ListOptions): Promise<readonly ListedValue[]>
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

/** Bytes by their SHA-256, stored once however many artifacts have them. Streams both ways. */
export interface Blobs {
  /** @throws what `bytes` throws, and then nothing is kept; `limit` in bytes → GatewayError `LIMIT` */
  write(
    bytes: AsyncIterable<Uint8Array>,
    limit: number,
  ): Promise<{ readonly sha256: string; readonly size: number }>
  /** `undefined`: not there. `range`: first and last byte, inclusive. */
  read(
    sha256: string,
    range?: { readonly first: number; readonly last: number },
  ): Promise<AsyncIterable<Uint8Array> | undefined>
  /** Only by whoever counted that no artifact has it any more. */
  delete(sha256: string): Promise<void>
}

/** Token buckets. */
export interface Rates {
  /** @returns 0 if it may go on, else the milliseconds until it may */
  take(
    bucket: string,
    rate: { readonly perMinute: number; readonly burst?: number },
  ): Promise<number>
}
