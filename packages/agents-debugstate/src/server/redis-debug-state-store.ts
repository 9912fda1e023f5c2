import { assertOptions, check } from '@x/internal'
import type { Checks } from '@x/internal'
import {
  createRedisScript,
  parseBytes,
  parseNumber,
  RedisError,
  RedisOperations,
} from '@x/internal/redis'
import type { RedisClient, RedisOperation } from '@x/internal/redis'
import { DebugStateStoreError } from './debug-state-store.ts'
import type { DebugStateAddress, DebugStateStore } from './debug-state-store.ts'

export interface RedisDebugStateStoreOptions {
  /** `redis[s]://[[user][:password]@]host[:port][/database]`. @default 'redis://127.0.0.1:6379' */
  readonly url?: string | undefined
  /** A connected client to use instead of `url`. The caller listens to its `error` events and closes it. */
  readonly client?: RedisClient | undefined
  /** First part of all keys: 1 to 64 of `A-Z a-z 0-9 . _ : -`. @default 'debugstate' */
  readonly prefix?: string | undefined
  /** Limit of one operation, with connecting. @default 1000 */
  readonly timeoutMs?: number | undefined
}

const optionChecks: Checks<RedisDebugStateStoreOptions> = {
  url: check.string,
  client: check.record,
  prefix: check.string,
  timeoutMs: check.number(1),
}

/**
 * Keeps values in Redis (6.2 or newer, or Valkey), for several machines that share them. Redis removes expired values
 * by its own clock. Which writes survive a crash of Redis depends on its settings `appendonly` and `appendfsync`.
 *
 * Connects on first use. While Redis is down, each operation rejects within `timeoutMs`; the first operation after
 * that connects again. No command is sent twice: a write that was cut off may or may not have happened.
 *
 * @example
 * ```ts
 * import { RedisDebugStateStore } from '@x/agents-debugstate/server'
 *
 * const store = new RedisDebugStateStore({ url: 'redis://127.0.0.1:6379' })
 * ```
 */
export class RedisDebugStateStore implements DebugStateStore, AsyncDisposable {
  readonly #redis: RedisOperations
  readonly #prefix: string

  /** @throws TypeError for a `url` that is not a Redis URL, or a `prefix` with other characters */
  constructor(options: RedisDebugStateStoreOptions = {}) {
    assertOptions('RedisDebugStateStore', options, optionChecks)
    const { url = 'redis://127.0.0.1:6379', prefix = 'debugstate', timeoutMs = 1000 } = options
    if (!/^[A-Za-z0-9._:-]{1,64}$/.test(prefix)) {
      throw new TypeError('`prefix` must have 1 to 64 of the characters A-Z a-z 0-9 . _ : -')
    }
    this.#prefix = prefix
    this.#redis = new RedisOperations(options.client ?? url, timeoutMs)
  }

  get(address: DebugStateAddress): Promise<Uint8Array | undefined> {
    return this.#operate(async ({ send }) => {
      const value = await send(['HGET', this.#keyOf(address), 'value'])
      return value === null ? undefined : parseBytes(value)
    })
  }

  put(address: DebugStateAddress, bytes: Uint8Array, ttlMs: number): Promise<void> {
    const { buffer, byteOffset, byteLength } = bytes
    const value = Buffer.from(buffer, byteOffset, byteLength)
    const args = [value, String(Math.max(1, Math.round(ttlMs)))]
    return this.#operate(async ({ run }) => void (await run(PUT, [this.#keyOf(address)], args)))
  }

  delete(address: DebugStateAddress): Promise<boolean> {
    return this.#operate(
      async ({ send }) => parseNumber(await send(['DEL', this.#keyOf(address)])) === 1,
    )
  }

  /** Waits for operations in flight. Each of them ends within `timeoutMs`. */
  close(): Promise<void> {
    return this.#redis.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /**
   * The key of a hash with the field `value`: `{prefix:agentId}:value:key`. The part in braces keeps all keys of an agent
   * on one node of a cluster. The agent id is percent-encoded, so it cannot contain a brace.
   */
  #keyOf({ agentId, key }: DebugStateAddress): string {
    return `{${this.#prefix}:${encodeURIComponent(agentId)}}:value:${key}`
  }

  async #operate<Result>(work: (operation: RedisOperation) => Promise<Result>): Promise<Result> {
    try {
      return await this.#redis.operate(work)
    } catch (error) {
      if (!(error instanceof RedisError)) throw error
      const { code, message } = error
      throw new DebugStateStoreError(code, message, 'cause' in error ? { cause: error.cause } : {})
    }
  }
}

/** HSET refuses a key of another program, of another type. KEYS: the hash. ARGV: value, time to live in milliseconds. */
const PUT = createRedisScript(`
redis.call('HSET', KEYS[1], 'value', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
`)
