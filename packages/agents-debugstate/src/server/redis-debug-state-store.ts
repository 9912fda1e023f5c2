import { randomUUID } from 'node:crypto'
import { assertOptions, check } from '@x/internal'
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
import type {
  DebugStateAddress,
  DebugStateStore,
  DeleteOutcome,
  ExpectedVersion,
  PutOptions,
  PutOutcome,
  StoredEntry,
  StoredValue,
} from './debug-state-store.ts'

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
 * by its own clock. The comparison with the expected version and the write are one script. Which writes survive a crash of Redis
 * depends on its settings `appendonly` and `appendfsync`.
 *
 * Connects on first use. While Redis is down, each operation rejects within `timeoutMs`; the first operation after
 * that connects again. No command is sent twice: a write that was cut off may or may not have happened.
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

  get(address: DebugStateAddress): Promise<StoredValue | undefined> {
    const [record] = createRedisKeys(this.#prefix, address)
    return this.#operate(async ({ send }) => {
      const [value, version] = parseList(await send(['HMGET', record, 'value', 'version']))
      if (value === null || version === null) return undefined
      return { bytes: parseBytes(value), version: parseText(version) }
    })
  }

  put(address: DebugStateAddress, bytes: Uint8Array, options: PutOptions): Promise<PutOutcome> {
    const keys = createRedisKeys(this.#prefix, address)
    const version = randomUUID()
    const { buffer, byteOffset, byteLength } = bytes
    const value = Buffer.from(buffer, byteOffset, byteLength)
    const ttl = String(Math.max(1, Math.round(options.ttlMs)))
    const args = [address.key, value, version, ttl, serializeExpected(options.expected)]
    return this.#operate(async ({ run }) =>
      parseNumber(await run(PUT, keys, args)) === 1 ? { version } : 'conflict',
    )
  }

  delete(address: DebugStateAddress, expected?: ExpectedVersion): Promise<DeleteOutcome> {
    const keys = createRedisKeys(this.#prefix, address)
    const args = [address.key, serializeExpected(expected)]
    return this.#operate(async ({ run }) => {
      const reply = parseNumber(await run(DELETE, keys, args))
      if (reply === -1) return 'conflict'
      return reply === 1 ? 'deleted' : 'absent'
    })
  }

  /** Returns entries in the order of the bytes of their keys. Values that change meanwhile may be missing. */
  list(agentId: string, limit: number): Promise<readonly StoredEntry[]> {
    return this.#operate(async (operation) => {
      const entries: StoredEntry[] = []
      let from = '-'
      while (entries.length < limit) {
        const count = Math.min(limit - entries.length, PAGE_KEYS)
        const sets = createRedisKeys(this.#prefix, { agentId, key: '' })
        const reply = await operation.run(LIST_KEYS, sets, [from, String(count)])
        const keys = parseList(reply).map(parseText)
        const page = await Promise.all(
          keys.map((key) => this.#getEntry({ agentId, key }, operation)),
        )
        for (const entry of page) if (entry) entries.push(entry)
        if (keys.length < count) break
        from = `(${keys.at(-1)}`
      }
      return entries
    })
  }

  /** Waits for operations in flight. Each of them ends within `timeoutMs`. */
  close(): Promise<void> {
    return this.#redis.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /** Returns `undefined` for a value that has expired since its key was listed. */
  async #getEntry(
    address: DebugStateAddress,
    { send }: RedisOperation,
  ): Promise<StoredEntry | undefined> {
    const [record] = createRedisKeys(this.#prefix, address)
    const reply = parseList(await send(['HMGET', record, 'bytes', 'updatedAt', 'expiresAt']))
    if (reply.includes(null)) return undefined
    const [bytes, updatedAt, expiresAt] = reply
    return {
      key: address.key,
      bytes: parseNumber(bytes),
      updatedAt: parseNumber(updatedAt),
      expiresAt: parseNumber(expiresAt),
    }
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

/** Keys of one page of a list. */
const PAGE_KEYS = 500

/** Returns the argument of a script: `any`, `none`, or `=` and a version. */
function serializeExpected(expected: ExpectedVersion): string {
  if (expected === undefined) return 'any'
  return expected === null ? 'none' : `=${expected}`
}

/** A hash, and two sorted sets of all keys of the agent. */
export type RedisKeys = readonly [record: string, names: string, expiries: string]

/**
 * Returns the Redis keys of one value:
 * - record `{prefix:agentId}:value:key`, a hash that expires: `value`, `version`, `bytes`, `updatedAt`, `expiresAt`
 * - names `{prefix:agentId}:keys`, all scores 0, so that the order is that of the bytes
 * - expiries `{prefix:agentId}:expiries`, with the time at which a key expires as its score
 *
 * The part in braces keeps all keys of an agent on one node of a cluster. The agent id is percent-encoded, so it
 * cannot contain a brace. The key is the rest, with any characters.
 */
export function createRedisKeys(prefix: string, { agentId, key }: DebugStateAddress): RedisKeys {
  const agent = `{${prefix}:${encodeURIComponent(agentId)}}`
  return [`${agent}:value:${key}`, `${agent}:keys`, `${agent}:expiries`]
}

/** First part of each script. Times are those of the clock of Redis, which is the same for all machines. */
const PRELUDE = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function text(number) return string.format('%.0f', number) end
local function isExpected(expected, version)
  return expected == 'any' or expected == (version and '=' .. version or 'none')
end
local function forgetExpired(limit)
  local expired = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', '(' .. text(now), 'LIMIT', 0, limit)
  if #expired == 0 then return end
  redis.call('ZREM', KEYS[2], unpack(expired))
  redis.call('ZREM', KEYS[3], unpack(expired))
end
`

/**
 * KEYS: record, names, expiries. ARGV: key, value, version, time to live, expected version. Returns 1 for written, 0 for
 * conflict. Each write removes more expired keys from the two sets than it adds. The sets expire with their last
 * value, so that nothing remains of an agent that is never used again.
 */
const PUT = createRedisScript(`${PRELUDE}
if not isExpected(ARGV[5], redis.call('HGET', KEYS[1], 'version')) then return 0 end
forgetExpired(16)
local ttl = tonumber(ARGV[4])
local expiresAt = text(now + ttl)
redis.call('HSET', KEYS[1], 'value', ARGV[2], 'version', ARGV[3], 'bytes', #ARGV[2],
  'updatedAt', text(now), 'expiresAt', expiresAt)
redis.call('PEXPIREAT', KEYS[1], expiresAt)
redis.call('ZADD', KEYS[2], 0, ARGV[1])
redis.call('ZADD', KEYS[3], expiresAt, ARGV[1])
for set = 2, 3 do
  if redis.call('PTTL', KEYS[set]) < ttl then redis.call('PEXPIREAT', KEYS[set], expiresAt) end
end
return 1
`)

/** KEYS: record, names, expiries. ARGV: key, expected version. Returns 1 for deleted, 0 for no value, -1 for conflict. */
const DELETE = createRedisScript(`${PRELUDE}
local version = redis.call('HGET', KEYS[1], 'version')
if not isExpected(ARGV[2], version) then return -1 end
if not version then return 0 end
redis.call('DEL', KEYS[1])
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[3], ARGV[1])
return 1
`)

/** KEYS: record (not used), names, expiries. ARGV: first key as in ZRANGEBYLEX, count. Returns the keys in order. */
const LIST_KEYS = createRedisScript(`${PRELUDE}
forgetExpired(500)
return redis.call('ZRANGEBYLEX', KEYS[2], ARGV[1], '+', 'LIMIT', 0, ARGV[2])
`)
