import type * as Redis from 'redis'
import { DebugStateStoreError } from './debug-state-store-error.ts'
import { BYTES } from './redis-client.ts'
import type { RedisClient, RedisCommand, RedisLink } from './redis-client.ts'

export interface RedisConnectionOptions {
  readonly url: string
  /** Limit of making a connection. */
  readonly timeoutMs: number
}

/**
 * One connection at a time, made when a command needs it, by one attempt that all commands share. A connection
 * that breaks, or does not answer, is dropped; the next command makes a new one. So nothing goes on in
 * the background while Redis is away, and nothing needs to be told that it is back.
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
    const { client, ended } = this.#attempt(redis)
    try {
      const connected = await client
      abortSignal.throwIfAborted()
      return await connected.sendCommand(command, { abortSignal, typeMapping: BYTES })
    } catch (error) {
      // Why it was dropped says more than that it was.
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

  #attempt(redis: typeof Redis): Attempt {
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

  /** News of an older connection comes too late: it must not end the one that replaced it. */
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
  /** Ends the connection, also one that is still being made. */
  readonly signal: AbortSignal
  readonly onBroken: () => void
}

async function connect(redis: typeof Redis, options: ConnectOptions): Promise<RedisClient> {
  const { url, timeoutMs, signal, onBroken } = options
  const client = redis.createClient({
    url,
    disableOfflineQueue: true,
    // Ours counts the whole operation, and drops the connection.
    commandOptions: { timeout: 0 },
    socket: { connectTimeout: timeoutMs, reconnectStrategy: false },
  })
  // Without a listener it would end the process. Later, so that commands in flight learn of this error first.
  client.on('error', () => queueMicrotask(onBroken))
  // Until then there is no socket that `destroy()` could end.
  client.on('connect', () => signal.aborted && end(client))
  signal.addEventListener('abort', () => end(client), { once: true })
  await client.connect()
  return client
}

function end(client: { destroy(): void }): void {
  try {
    client.destroy()
  } catch {
    // It has ended by itself: versions before 6.3 throw then.
  }
}

/** Loaded on first use: who keeps sessions elsewhere need not install it. */
async function loadRedis(): Promise<typeof Redis> {
  try {
    return await import('redis')
  } catch (error) {
    const message = 'RedisDebugStateStore needs the package redis: install it, or pass a `client`'
    throw new DebugStateStoreError('UNAVAILABLE', message, { cause: error })
  }
}
