import type * as Redis from 'redis'
import { DebugStateStoreError } from './debug-state-store.ts'

/** The words of a command. */
export type RedisCommand = readonly (string | Buffer)[]

/** Options that the store passes with each command. */
export interface RedisCommandOptions {
  /** A command that was not sent before this aborts must not be sent. */
  readonly abortSignal?: AbortSignal
  /** `{ 36: Buffer }`: strings (36 is `$`, their mark in the protocol of Redis) are returned as bytes. */
  readonly typeMapping?: { readonly 36: BufferConstructor }
}

/** The method of a Redis client that the store calls. Clients of the `redis` package fit. */
export interface RedisClient {
  sendCommand(command: RedisCommand, options?: RedisCommandOptions): Promise<unknown>
}

/** Sends commands: over a client of the caller, or over a `RedisConnection`. */
export interface RedisLink {
  /** Loads modules. The time is not counted as time of Redis. */
  prepare(): Promise<void>
  send(command: RedisCommand, signal: AbortSignal): Promise<unknown>
  /** Called when Redis did not answer in time. Commands on the same connection fail with `reason`. */
  giveUp(reason: DebugStateStoreError): void
  /** Idempotent, and takes limited time. */
  close(): Promise<void>
}

/** Wraps a client that the caller connects and closes. */
export function borrowClient(client: RedisClient): RedisLink {
  return {
    async prepare() {},
    send: (command, abortSignal) =>
      client.sendCommand(command, { abortSignal, typeMapping: BYTES }),
    giveUp() {},
    async close() {},
  }
}

const BYTES = { 36: Buffer } as const

export interface RedisConnectionOptions {
  readonly url: string
  /** Limit of connecting. */
  readonly timeoutMs: number
}

/**
 * Connects when a command needs it; concurrent commands share one connection. A connection that breaks or does not
 * answer is dropped, and the next command connects again. So nothing runs in the background while Redis is down.
 */
export class RedisConnection implements RedisLink {
  readonly #options: RedisConnectionOptions
  #redis: typeof Redis | undefined
  #current: Attempt | undefined
  readonly #connecting = new Set<Promise<unknown>>()

  constructor(options: RedisConnectionOptions) {
    this.#options = options
  }

  async prepare(): Promise<void> {
    this.#redis ??= await loadRedis()
  }

  async send(command: RedisCommand, abortSignal: AbortSignal): Promise<unknown> {
    const redis = (this.#redis ??= await loadRedis())
    const { client, ended } = this.#connect(redis)
    try {
      const connected = await client
      abortSignal.throwIfAborted()
      return await connected.sendCommand(command, { abortSignal, typeMapping: BYTES })
    } catch (error) {
      // The reason why the connection was dropped says more than the error of the client.
      throw ended.reason instanceof DebugStateStoreError ? ended.reason : error
    }
  }

  giveUp(reason: DebugStateStoreError): void {
    this.#drop(this.#current, reason)
  }

  async close(): Promise<void> {
    this.#drop(this.#current)
    await Promise.allSettled(this.#connecting)
  }

  #connect(redis: typeof Redis): Attempt {
    if (this.#current) return this.#current
    const ending = new AbortController()
    const attempt: Attempt = {
      client: connect(redis, {
        ...this.#options,
        signal: ending.signal,
        onBroken: () => this.#drop(attempt),
      }),
      ended: ending.signal,
      end: (reason) => ending.abort(reason),
    }
    this.#current = attempt
    const settled = attempt.client.catch(() => this.#drop(attempt))
    this.#connecting.add(settled)
    void settled.finally(() => this.#connecting.delete(settled))
    return attempt
  }

  /** A late error of an older connection does not end the current one. */
  #drop(attempt: Attempt | undefined, reason?: DebugStateStoreError): void {
    attempt?.end(reason)
    if (this.#current === attempt) this.#current = undefined
  }
}

interface Attempt {
  readonly client: Promise<RedisClient>
  readonly ended: AbortSignal
  end(reason: DebugStateStoreError | undefined): void
}

interface ConnectOptions extends RedisConnectionOptions {
  /** Ends the connection, also while it is being made. */
  readonly signal: AbortSignal
  readonly onBroken: () => void
}

async function connect(redis: typeof Redis, options: ConnectOptions): Promise<RedisClient> {
  const { url, timeoutMs, signal, onBroken } = options
  const client = redis.createClient({
    url,
    disableOfflineQueue: true,
    commandOptions: { timeout: 0 }, // the store limits the whole operation
    socket: { connectTimeout: timeoutMs, reconnectStrategy: false },
  })
  // An `error` event without a listener would end the process. Delayed, so that commands in flight get the error first.
  client.on('error', () => queueMicrotask(onBroken))
  // Before this event there is no socket that `destroy()` could end.
  client.on('connect', () => signal.aborted && destroy(client))
  signal.addEventListener('abort', () => destroy(client), { once: true })
  await client.connect()
  return client
}

function destroy(client: { destroy(): void }): void {
  try {
    client.destroy()
  } catch {
    // The client has ended already: versions before 6.3 throw then.
  }
}

/** Loaded on first use: users of other stores need not install it. */
async function loadRedis(): Promise<typeof Redis> {
  try {
    return await import('redis')
  } catch (error) {
    const message = 'RedisDebugStateStore needs the package redis: install it, or pass a `client`'
    throw new DebugStateStoreError('UNAVAILABLE', message, { cause: error })
  }
}
