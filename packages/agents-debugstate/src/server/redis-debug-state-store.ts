import { assertOptions, check, compareBytes } from '@x/internal'
import type { Checks } from '@x/internal'
import {
  createRedisScript,
  parseBytes,
  parseList,
  parseNumber,
  parseText,
  RedisError,
  RedisOperations,
} from '@x/internal/redis'
import type { RedisClient, RedisOperation } from '@x/internal/redis'
import { DebugStateStoreError } from './debug-state-store.ts'
import type { DebugStateAddress, DebugStateStore, StoredEntry } from './debug-state-store.ts'

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
    const [record] = createRedisKeys(this.#prefix, address)
    return this.#operate(async ({ send }) => {
      const value = await send(['HGET', record, 'value'])
      return value === null ? undefined : parseBytes(value)
    })
  }

  put(address: DebugStateAddress, bytes: Uint8Array, ttlMs: number): Promise<void> {
    const keys = createRedisKeys(this.#prefix, address)
    const { buffer, byteOffset, byteLength } = bytes
    const value = Buffer.from(buffer, byteOffset, byteLength)
    const args = [address.key, value, String(Math.max(1, Math.round(ttlMs)))]
    return this.#operate(async ({ run }) => void (await run(PUT, keys, args)))
  }

  delete(address: DebugStateAddress): Promise<boolean> {
    const keys = createRedisKeys(this.#prefix, address)
    return this.#operate(
      async ({ run }) => parseNumber(await run(DELETE, keys, [address.key])) === 1,
    )
  }

  /** Reads the names of all keys of the agent. Values that change meanwhile may be missing. */
  list(agentId: string, limit: number): Promise<readonly StoredEntry[]> {
    const keysOf = (key: string): RedisKeys => createRedisKeys(this.#prefix, { agentId, key })
    return this.#operate(async ({ run, send }) => {
      const names = parseList(await run(LIST, keysOf(''), [])).map(parseText)
      const entries = await Promise.all(
        names
          .toSorted(compareBytes)
          .slice(0, limit)
          .map(async (key): Promise<StoredEntry | undefined> => {
            const [record] = keysOf(key)
            const reply = parseList(await send(['HMGET', record, ...FIELDS]))
            if (reply.includes(null)) return undefined
            const [bytes = 0, updatedAt = 0, expiresAt = 0] = reply.map(parseNumber)
            return { key, bytes, updatedAt, expiresAt }
          }),
      )
      return entries.filter((entry) => entry !== undefined)
    })
  }

  /** Waits for operations in flight. Each of them ends within `timeoutMs`. */
  close(): Promise<void> {
    return this.#redis.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
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

const FIELDS = ['bytes', 'updatedAt', 'expiresAt']

/** A hash, and a sorted set of all keys of the agent. */
export type RedisKeys = readonly [record: string, names: string]

/**
 * Returns the Redis keys of one value:
 * - record `{prefix:agentId}:value:key`, a hash that expires: `value`, `bytes`, `updatedAt`, `expiresAt`
 * - names `{prefix:agentId}:keys`, a sorted set of keys, with the time at which a key expires as its score
 *
 * The part in braces keeps all keys of an agent on one node of a cluster. The agent id is percent-encoded, so it
 * cannot contain a brace. The key is the rest, with any characters.
 */
export function createRedisKeys(prefix: string, { agentId, key }: DebugStateAddress): RedisKeys {
  const agent = `{${prefix}:${encodeURIComponent(agentId)}}`
  return [`${agent}:value:${key}`, `${agent}:keys`]
}

/** Times are those of the clock of Redis, which is the same for all machines. */
const NOW = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function text(number) return string.format('%.0f', number) end
`

/** Forgets the names of expired values. */
const FORGET_EXPIRED = `redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', text(now))`

/**
 * KEYS: record, names. ARGV: key, value, time to live. The set expires with its last value, so that nothing remains of
 * an agent that is never used again. HSET is the first write, because Redis checks its memory limit only there.
 */
const PUT = createRedisScript(`${NOW}
local ttl = tonumber(ARGV[3])
local expiresAt = text(now + ttl)
redis.call('HSET', KEYS[1], 'value', ARGV[2], 'bytes', #ARGV[2], 'updatedAt', text(now), 'expiresAt', expiresAt)
redis.call('PEXPIREAT', KEYS[1], expiresAt)
${FORGET_EXPIRED}
redis.call('ZADD', KEYS[2], expiresAt, ARGV[1])
if redis.call('PTTL', KEYS[2]) < ttl then redis.call('PEXPIREAT', KEYS[2], expiresAt) end
return 1
`)

/** KEYS: record, names. ARGV: key. Returns the number of deleted values. */
const DELETE = createRedisScript(`
redis.call('ZREM', KEYS[2], ARGV[1])
return redis.call('DEL', KEYS[1])
`)

/** KEYS: record (not used), names. Returns the keys of the agent. */
const LIST = createRedisScript(`${NOW}
${FORGET_EXPIRED}
return redis.call('ZRANGE', KEYS[2], 0, -1)
`)
