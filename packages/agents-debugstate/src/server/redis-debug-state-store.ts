import { createHash, randomUUID } from 'node:crypto'
import { assertOptions, check } from '@x/internal'
import type { Checks } from '@x/internal'
import { DebugStateStoreError } from './debug-state-store.ts'
import type {
  DebugStateAddress,
  DebugStateStore,
  DebugStateStoreErrorCode,
  DeleteOutcome,
  Precondition,
  PutOptions,
  PutOutcome,
  StoredEntry,
  StoredValue,
} from './debug-state-store.ts'
import { borrowClient, RedisConnection } from './redis-connection.ts'
import type { RedisClient, RedisLink } from './redis-connection.ts'

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
 * by its own clock. The check of a precondition and the write are one script. Which writes survive a crash of Redis
 * depends on its settings `appendonly` and `appendfsync`.
 *
 * Connects on first use. While Redis is down, each operation rejects within `timeoutMs`; the first operation after
 * that connects again. No command is sent twice: a write that was cut off may or may not have happened.
 */
export class RedisDebugStateStore implements DebugStateStore, AsyncDisposable {
  readonly #link: RedisLink
  readonly #server: string
  readonly #prefix: string
  readonly #timeoutMs: number
  readonly #inFlight = new Set<Promise<unknown>>()
  #closing: Promise<void> | undefined

  /** @throws TypeError for a `url` that is not a Redis URL, or a `prefix` with other characters */
  constructor(options: RedisDebugStateStoreOptions = {}) {
    assertOptions('RedisDebugStateStore', options, optionChecks)
    const { url = 'redis://127.0.0.1:6379', prefix = 'debugstate', timeoutMs = 1000 } = options
    if (!/^[A-Za-z0-9._:-]{1,64}$/.test(prefix)) {
      throw new TypeError('`prefix` must have 1 to 64 of the characters A-Z a-z 0-9 . _ : -')
    }
    this.#prefix = prefix
    this.#timeoutMs = timeoutMs
    if (options.client) {
      this.#server = 'the given client'
      this.#link = borrowClient(options.client)
    } else {
      this.#server = parseHost(url)
      this.#link = new RedisConnection({ url, timeoutMs })
    }
  }

  get({ agentId, key }: DebugStateAddress): Promise<StoredValue | undefined> {
    return this.#operate(async (signal) => {
      const { record } = createRedisKeys(this.#prefix, { agentId, key })
      const reply = await this.#link.send(['HMGET', record, 'value', 'version'], signal)
      const [value, version] = parseList(reply)
      if (value === null || version === null) return undefined
      return { bytes: parseBytes(value), version: parseText(version) }
    })
  }

  put(address: DebugStateAddress, bytes: Uint8Array, options: PutOptions): Promise<PutOutcome> {
    const version = randomUUID()
    const { buffer, byteOffset, byteLength } = bytes
    const value = Buffer.from(buffer, byteOffset, byteLength)
    const ttl = String(Math.max(1, Math.round(options.ttlMs)))
    const args = [address.key, value, version, ttl, serializePrecondition(options.precondition)]
    return this.#operate(async (signal) => {
      const reply = await this.#run(PUT, { address, args, signal })
      return parseNumber(reply) === 1 ? { version } : 'conflict'
    })
  }

  delete(address: DebugStateAddress, precondition?: Precondition): Promise<DeleteOutcome> {
    const args = [address.key, serializePrecondition(precondition)]
    return this.#operate(async (signal) => {
      const reply = parseNumber(await this.#run(DELETE, { address, args, signal }))
      if (reply === -1) return 'conflict'
      return reply === 1 ? 'deleted' : 'absent'
    })
  }

  /** Returns entries in the order of the bytes of their keys. Values that change meanwhile may be missing. */
  list(agentId: string, limit: number): Promise<readonly StoredEntry[]> {
    return this.#operate(async (signal) => {
      const entries: StoredEntry[] = []
      let from = '-'
      while (entries.length < limit) {
        const count = Math.min(limit - entries.length, PAGE_KEYS)
        const args = [from, String(count)]
        const reply = await this.#run(LIST_KEYS, { address: { agentId, key: '' }, args, signal })
        const keys = parseList(reply).map(parseText)
        const page = await Promise.all(keys.map((key) => this.#getEntry({ agentId, key }, signal)))
        for (const entry of page) if (entry) entries.push(entry)
        if (keys.length < count) break
        from = `(${keys.at(-1)}`
      }
      return entries
    })
  }

  /** Waits for operations in flight. Each of them ends within `timeoutMs`. */
  close(): Promise<void> {
    this.#closing ??= Promise.allSettled(this.#inFlight).then(() => this.#link.close())
    return this.#closing
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /** Returns `undefined` for a value that has expired since its key was listed. */
  async #getEntry(
    address: DebugStateAddress,
    signal: AbortSignal,
  ): Promise<StoredEntry | undefined> {
    const { record } = createRedisKeys(this.#prefix, address)
    const command = ['HMGET', record, 'bytes', 'updatedAt', 'expiresAt']
    const reply = parseList(await this.#link.send(command, signal))
    if (reply.includes(null)) return undefined
    const [bytes, updatedAt, expiresAt] = reply
    return {
      key: address.key,
      bytes: parseNumber(bytes),
      updatedAt: parseNumber(updatedAt),
      expiresAt: parseNumber(expiresAt),
    }
  }

  async #run({ text, sha }: RedisScript, { address, args, signal }: RunOptions): Promise<unknown> {
    const { record, names, expiries } = createRedisKeys(this.#prefix, address)
    const rest = ['3', record, names, expiries, ...args]
    try {
      return await this.#link.send(['EVALSHA', sha, ...rest], signal)
    } catch (error) {
      // This Redis does not know the script yet, or was restarted. It executed nothing.
      if (!(error instanceof Error && error.message.startsWith('NOSCRIPT'))) throw error
      return this.#link.send(['EVAL', text, ...rest], signal)
    }
  }

  async #operate<Result>(work: (signal: AbortSignal) => Promise<Result>): Promise<Result> {
    if (this.#closing) throw new DebugStateStoreError('CLOSED', 'The store is closed')
    const result = this.#withinLimit(work)
    this.#inFlight.add(result)
    try {
      return await result
    } catch (error) {
      throw toStoreError(error, this.#server)
    } finally {
      this.#inFlight.delete(result)
    }
  }

  async #withinLimit<Result>(work: (signal: AbortSignal) => Promise<Result>): Promise<Result> {
    await this.#link.prepare()
    const deadline = new AbortController()
    let timer: NodeJS.Timeout | undefined
    const expired = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        const message = `Redis at ${this.#server} did not answer within ${this.#timeoutMs} ms`
        const error = new DebugStateStoreError('TIMEOUT', message)
        reject(error)
        deadline.abort(error)
        this.#link.giveUp(error)
      }, this.#timeoutMs)
    })
    try {
      return await Promise.race([work(deadline.signal), expired])
    } finally {
      clearTimeout(timer)
    }
  }
}

/** Keys of one page of a list. */
const PAGE_KEYS = 500

interface RunOptions {
  readonly address: DebugStateAddress
  readonly args: readonly (string | Buffer)[]
  readonly signal: AbortSignal
}

function parseHost(url: string): string {
  const parsed = URL.canParse(url) ? new URL(url) : undefined
  if (parsed?.protocol === 'redis:' || parsed?.protocol === 'rediss:') return parsed.host
  throw new TypeError('`url` must start with redis:// or rediss:// and have a host')
}

function serializePrecondition(precondition: Precondition | undefined): string {
  return precondition ? JSON.stringify(precondition) : ''
}

/** The Redis keys of one value. The part in braces keeps all keys of an agent on one node of a cluster. */
export interface RedisKeys {
  /** A hash that expires: `value`, `version`, `bytes`, `updatedAt`, `expiresAt`. */
  readonly record: string
  /** A sorted set of the keys of the agent. All scores are 0, so the order is that of the bytes. */
  readonly names: string
  /** A sorted set of the same keys, by the time at which they expire. */
  readonly expiries: string
}

/**
 * Returns `{prefix:agentId}:value:key`, `{prefix:agentId}:keys` and `{prefix:agentId}:expiries`. The agent id is
 * percent-encoded, so it cannot contain a brace. The key is the rest, with any characters.
 */
export function createRedisKeys(prefix: string, { agentId, key }: DebugStateAddress): RedisKeys {
  const agent = `{${prefix}:${encodeURIComponent(agentId)}}`
  return {
    record: `${agent}:value:${key}`,
    names: `${agent}:keys`,
    expiries: `${agent}:expiries`,
  }
}

// Replies are checked before use: a proxy or another version may answer anything.

function parseList(reply: unknown): readonly unknown[] {
  if (Array.isArray(reply)) return reply
  throw createReplyError('a list')
}

function parseBytes(reply: unknown): Uint8Array {
  if (reply instanceof Uint8Array) return reply
  throw createReplyError('bytes')
}

function parseText(reply: unknown): string {
  return Buffer.from(parseBytes(reply)).toString()
}

function parseNumber(reply: unknown): number {
  const number = typeof reply === 'number' ? reply : Number(parseText(reply))
  if (Number.isFinite(number)) return number
  throw createReplyError('a number')
}

function createReplyError(expected: string): DebugStateStoreError {
  return new DebugStateStoreError('CORRUPT', `Redis did not answer with ${expected}`)
}

/** Converts an error of Redis or its client. The message names the server. Keeps the error as the `cause`. */
function toStoreError(error: unknown, server: string): DebugStateStoreError {
  if (error instanceof DebugStateStoreError) return error
  const reason = error instanceof Error ? error.message : String(error)
  // The first word of an error reply. Before Redis 7, that of a script comes later, after a hyphen.
  const [, kind = ''] = /(?:^|: -)([A-Z]+) /.exec(reason) ?? []
  const [code, advice] = FAILURES[kind] ?? ['UNAVAILABLE', 'cannot be used: see the cause']
  return new DebugStateStoreError(code, `Redis at ${server} ${advice}`, { cause: error })
}

type Failure = readonly [code: DebugStateStoreErrorCode, advice: string]

const DENIED: Failure = ['DENIED', 'refused access: check user, password and ACL']

const FAILURES: Readonly<Record<string, Failure>> = {
  NOAUTH: DENIED,
  WRONGPASS: DENIED,
  NOPERM: DENIED,
  READONLY: ['READ_ONLY', 'is a replica: use the address of the primary'],
  OOM: ['FULL', 'has reached its maxmemory: give it more'],
  WRONGTYPE: ['FOREIGN', 'has keys of another program under this prefix: choose another prefix'],
}

/** A script that Redis runs as one step. */
interface RedisScript {
  readonly text: string
  /** Name of the script in Redis, once Redis has run it. */
  readonly sha: string
}

/**
 * First part of each script. Times are those of the clock of Redis, which is the same for all machines. `holds` does
 * the same as `holds()` of debug-state-store.ts.
 */
const PRELUDE = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function text(number) return string.format('%.0f', number) end
local function matches(tags, version)
  if not version then return false end
  if tags == '*' then return true end
  for _, tag in ipairs(tags) do
    if tag == version then return true end
  end
  return false
end
local function holds(json, version)
  if json == '' then return true end
  local precondition = cjson.decode(json)
  local yes, no = precondition.ifMatch, precondition.ifNoneMatch
  return (yes == nil or matches(yes, version)) and (no == nil or not matches(no, version))
end
local function forgetExpired(limit)
  local expired = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', '(' .. text(now), 'LIMIT', 0, limit)
  if #expired == 0 then return end
  redis.call('ZREM', KEYS[2], unpack(expired))
  redis.call('ZREM', KEYS[3], unpack(expired))
end
`

/**
 * KEYS: record, names, expiries. ARGV: key, value, version, time to live, precondition. Returns 1 for written, 0 for
 * conflict. Each write removes more expired keys from the two sets than it adds. The sets expire with their last
 * value, so that nothing remains of an agent that is never used again.
 */
const PUT: RedisScript = createScript(`
if not holds(ARGV[5], redis.call('HGET', KEYS[1], 'version')) then return 0 end
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

/** KEYS: record, names, expiries. ARGV: key, precondition. Returns 1 for deleted, 0 for no value, -1 for conflict. */
const DELETE: RedisScript = createScript(`
local version = redis.call('HGET', KEYS[1], 'version')
if not holds(ARGV[2], version) then return -1 end
if not version then return 0 end
redis.call('DEL', KEYS[1])
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[3], ARGV[1])
return 1
`)

/** KEYS: record (not used), names, expiries. ARGV: first key as in ZRANGEBYLEX, count. Returns the keys in order. */
const LIST_KEYS: RedisScript = createScript(`
forgetExpired(500)
return redis.call('ZRANGEBYLEX', KEYS[2], ARGV[1], '+', 'LIMIT', 0, ARGV[2])
`)

function createScript(body: string): RedisScript {
  const text = PRELUDE + body
  return { text, sha: createHash('sha1').update(text).digest('hex') }
}
