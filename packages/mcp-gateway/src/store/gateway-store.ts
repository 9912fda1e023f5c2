import { GatewayError } from '../errors.ts'
import { sleep, type Clock } from '../internal/clock.ts'
import { pause } from '../internal/timers.ts'

/**
 * What a gateway stores. The parts are plain: sessions, files, paused runs and keys are built on them once, for all
 * stores. `MemoryGatewayStore` and `DiskGatewayStore` serve one process, `redisStore()` of `@x/mcp-gateway-redis` several.
 *
 * Operations reject with GatewayError `UNAVAILABLE` within a time limit if the store cannot be reached, and with
 * `CLOSED` after `close()`.
 */
export interface GatewayStore {
  readonly records: Records
  readonly logs: EventLogs
  readonly blobs: Blobs
  readonly rates: Rates
  /** True if other processes use the same store. */
  readonly isShared: boolean
  /** True if the store keeps its records when the gateway restarts, so that sessions continue. */
  readonly isDurable: boolean
  /**
   * Writes a little, and resolves to true if the store can be used now. False after `close()`. For readiness checks.
   *
   * @throws GatewayError `UNAVAILABLE` with the reason, such as a full disk. The gateway logs it
   */
  isReady(): Promise<boolean>
  close(): Promise<void>
}

/** Small JSON records by key, each with a time to live. Keys are sorted by their bytes. */
export interface Records {
  get(key: string): Promise<Versioned | undefined>
  /** Returns the new version. `undefined`: the record has another version than `ifVersion`. */
  put(key: string, value: unknown, options?: PutOptions): Promise<string | undefined>
  /** Sets a new time to live. Value and version stay. Returns whether the record exists. */
  touch(key: string, ttlMs: number): Promise<boolean>
  /** Reads and deletes a record in one step, so that one caller only gets the value. */
  take(key: string): Promise<unknown>
  /** Returns whether the record existed, in the given version if there is one. */
  delete(key: string, ifVersion?: string): Promise<boolean>
  /** Returns records whose keys begin with `prefix`, in order: at most `limit` (default 1000) after `after`. */
  list(prefix: string, options?: ListOptions): Promise<readonly ListedRecord[]>
  /** Returns the number of records whose keys begin with `prefix`. May include some that ended a moment ago. */
  count(prefix: string): Promise<number>
}

export interface PutOptions {
  /** @default the record has no end */
  readonly ttlMs?: number | undefined
  /** Writes only if the record has this version. `null`: only if the record does not exist. @default always writes */
  readonly ifVersion?: string | null | undefined
  /** Is appended to a log in the same step, if the record is written. A process that dies never leaves one of them alone. */
  readonly event?: PutEvent | undefined
}

/** An event that announces a write. */
export interface PutEvent {
  readonly log: string
  readonly event: unknown
  readonly limits: LogLimits
}

export interface ListOptions {
  readonly after?: string | undefined
  readonly limit?: number | undefined
}

export interface Versioned {
  readonly value: unknown
  readonly version: string
}

export interface ListedRecord extends Versioned {
  readonly key: string
}

export interface LogLimits {
  readonly maxEvents: number
  readonly ttlMs: number
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
   * Calls `listener` for each event after `afterId`, in order and once: first for existing events, then for new ones.
   * Reconnects after a failure of the store. The log may begin later.
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
  /** JSON-RPC id of the request that the log answers. */
  readonly requestId: string | number
}

export interface AppendOptions {
  readonly limits: LogLimits
  /** Nothing follows this event. */
  readonly isLast: boolean
  /** Header for a log that no longer exists: the event begins it again. @default a log without a header */
  readonly header?: LogHeader | undefined
}

export interface FoundLog {
  readonly log: string
  /** `undefined` for a log that was not opened. */
  readonly header: LogHeader | undefined
}

export interface LoggedEvent {
  readonly id: string
  readonly event: unknown
  /** True for the last event of its log. */
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

/** Follows the events of one log, from the first call of `start`. */
export class LogFollower {
  readonly #begin: () => Promise<() => void>
  #started: Promise<() => void> | undefined

  constructor(logs: Pick<EventLogs, 'tail'>, log: string, listener: LogListener) {
    this.#begin = () => logs.tail(log, 'now', listener)
  }

  /**
   * Resolves when new events are delivered. After a failure, the next call tries again.
   *
   * @throws GatewayError `UNAVAILABLE`
   */
  async start(): Promise<void> {
    const started = (this.#started ??= this.#begin())
    try {
      await started
    } catch (error) {
      if (this.#started === started) this.#started = undefined
      throw error
    }
  }

  async stop(): Promise<void> {
    const stop = await this.#started?.catch(() => undefined)
    stop?.()
  }
}

/** Bytes of files, each with a time to live. */
export interface Blobs {
  /**
   * Stores bytes under a new id. Keeps nothing if it rejects. Bytes of a write that was cut off by the end of its process
   * end with their time to live, too.
   *
   * @throws GatewayError `LIMIT` for more bytes than `limit`, and the error of `bytes`
   */
  write(bytes: AsyncIterable<Uint8Array>, limits: BlobLimits): Promise<WrittenBlob>
  /** Returns `undefined` for an id that is unknown or has ended. */
  read(id: string): Promise<AsyncIterable<Uint8Array> | undefined>
  /** Does nothing for an unknown id. */
  delete(id: string): Promise<void>
}

export interface BlobLimits {
  /** Most bytes. */
  readonly limit: number
  /** Milliseconds for which the bytes are kept. Then the store deletes them. */
  readonly ttlMs: number
}

export interface WrittenBlob {
  readonly id: string
  /** hex */
  readonly sha256: string
  /** bytes */
  readonly size: number
}

/** Token buckets. */
export interface Rates {
  /**
   * Returns 0 if a token was taken, else the milliseconds until there is one.
   *
   * @param perMinute tokens that come in a minute. A bucket has at most so many
   */
  take(bucket: string, perMinute: number): Promise<number>
}

const PAGE_RECORDS = 200

/** Yields all records whose keys begin with `prefix`, in the order of the keys. Concurrent changes may be missing. */
export async function* listAll(
  records: Pick<Records, 'list'>,
  prefix: string,
): AsyncGenerator<ListedRecord, void, undefined> {
  let after: string | undefined
  do {
    const page = await records.list(prefix, { after, limit: PAGE_RECORDS })
    yield* page
    after = page.length < PAGE_RECORDS ? undefined : page.at(-1)?.key
  } while (after !== undefined)
}

/** Time between two attempts to reach a store that is away. */
const RETRY_MS = 250

/**
 * Calls a function again while the store is away, for at most `ms`, until the signal aborts.
 *
 * @throws the last error
 */
export async function whenBack<Value>(
  attempt: () => Promise<Value>,
  {
    clock,
    ms,
    signal,
  }: { readonly clock: Clock; readonly ms: number; readonly signal?: AbortSignal },
): Promise<Value> {
  for (const until = clock.now() + ms; ;) {
    try {
      return await attempt()
    } catch (error) {
      const isAway = GatewayError.is(error) && error.code === 'UNAVAILABLE'
      if (!isAway || signal?.aborted || clock.now() >= until) throw error
      if (signal === undefined) await sleep(clock, RETRY_MS)
      else await pause(RETRY_MS, clock, signal).catch(() => Promise.reject(error))
    }
  }
}

/** @throws TypeError for a value that JSON cannot hold, such as `undefined` */
export function toJsonText(value: unknown): string {
  const text: string | undefined = JSON.stringify(value)
  if (text === undefined) throw new TypeError('Only values that JSON can hold can be stored')
  return text
}
