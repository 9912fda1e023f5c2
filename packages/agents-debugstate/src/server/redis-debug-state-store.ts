import { assertOptions, check } from '@x/internal'
import type { Checks } from '@x/internal'
import type {
  DebugStateAddress,
  DebugStateStore,
  DeleteOutcome,
  PutOptions,
  PutOutcome,
  StoredEntry,
  StoredValue,
} from './debug-state-store.ts'
import { DebugStateStoreError } from './debug-state-store-error.ts'
import type { Precondition } from './precondition.ts'
import { borrowedLink } from './redis-client.ts'
import type { RedisClient, RedisLink } from './redis-client.ts'
import { RedisConnection } from './redis-connection.ts'
import { redisErrorFrom } from './redis-error.ts'
import { keysOfChange, redisKeys } from './redis-keys.ts'
import { bytesFrom, listFrom, numberFrom, textFrom } from './redis-reply.ts'
import { DELETE, NAMES, PUT } from './redis-script.ts'
import type { RedisScript } from './redis-script.ts'
import { newVersion } from './version.ts'

export interface RedisDebugStateStoreOptions {
  /** `redis[s]://[[user][:password]@]host[:port][/database]`. @default 'redis://127.0.0.1:6379' */
  readonly url?: string | undefined
  /** A client of yours in place of `url`: connected, and listened to for its `error` events. Yours to close. */
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
 * Keeps values in Redis (6.2 or newer, or Valkey), for several machines that share them. Each value expires by itself,
 * by the clock of Redis; precondition and write are one script. What was acknowledged survives a crash of
 * Redis as far as Redis itself is told to write it down (`appendonly`, `appendfsync`).
 *
 * Opens nothing until it is used. Where Redis is away, each operation rejects within `timeoutMs`, and the
 * first one after its return connects again. Nothing is sent twice: of a write that was cut off, nothing is known.
 */
export class RedisDebugStateStore implements DebugStateStore, AsyncDisposable {
  readonly #link: RedisLink
  readonly #server: string
  readonly #prefix: string
  readonly #timeoutMs: number
  readonly #inFlight = new Set<Promise<unknown>>()
  #closing: Promise<void> | undefined

  /** @throws TypeError for a `url` that is none of Redis, or a `prefix` with other characters */
  constructor(options: RedisDebugStateStoreOptions = {}) {
    assertOptions('RedisDebugStateStore', options, optionChecks)
    const { url = 'redis://127.0.0.1:6379', prefix = 'debugstate', timeoutMs = 1000 } = options
    if (!PREFIX.test(prefix)) {
      throw new TypeError('`prefix` has 1 to 64 of the characters A-Z a-z 0-9 . _ : -')
    }
    this.#prefix = prefix
    this.#timeoutMs = timeoutMs
    if (options.client) {
      this.#server = 'the given client'
      this.#link = borrowedLink(options.client)
    } else {
      this.#server = hostOf(url)
      this.#link = new RedisConnection({ url, timeoutMs })
    }
  }

  get({ agentId, key }: DebugStateAddress): Promise<StoredValue | undefined> {
    return this.#bounded(async (signal) => {
      const record = redisKeys(this.#prefix, agentId).record(key)
      const reply = await this.#link.send(['HMGET', record, 'value', 'version'], signal)
      const [value, version] = listFrom(reply)
      if (value === null || version === null) return undefined
      return { bytes: bytesFrom(value), version: textFrom(version) }
    })
  }

  put(address: DebugStateAddress, bytes: Uint8Array, options: PutOptions): Promise<PutOutcome> {
    const version = newVersion()
    const { buffer, byteOffset, byteLength } = bytes
    const value = Buffer.from(buffer, byteOffset, byteLength)
    const ttl = String(Math.max(1, Math.round(options.ttlMs)))
    const precondition = jsonFrom(options.precondition)
    return this.#bounded(async (signal) => {
      const keys = keysOfChange(this.#prefix, address)
      const args = [address.key, value, version, ttl, precondition]
      const reply = await this.#run(PUT, { keys, args, signal })
      return numberFrom(reply) === 1 ? { version } : 'conflict'
    })
  }

  delete(address: DebugStateAddress, precondition?: Precondition): Promise<DeleteOutcome> {
    return this.#bounded(async (signal) => {
      const keys = keysOfChange(this.#prefix, address)
      const args = [address.key, jsonFrom(precondition)]
      const reply = numberFrom(await this.#run(DELETE, { keys, args, signal }))
      if (reply === -1) return 'conflict'
      return reply === 1 ? 'deleted' : 'absent'
    })
  }

  /** In the order of the bytes of the keys. Values that come and go meanwhile may be in it or not. */
  list(agentId: string, limit: number): Promise<readonly StoredEntry[]> {
    return this.#bounded(async (signal) => {
      const entries: StoredEntry[] = []
      let from = '-'
      while (entries.length < limit) {
        const count = Math.min(limit - entries.length, PAGE_KEYS)
        const page = await this.#page({ agentId, from, count, signal })
        for (const { entry } of page) if (entry) entries.push(entry)
        const last = page.at(-1)
        if (last === undefined || page.length < count) break
        from = `(${last.key}`
      }
      return entries
    })
  }

  /** Waits for operations in flight, each of which ends within `timeoutMs`. */
  close(): Promise<void> {
    this.#closing ??= Promise.allSettled(this.#inFlight).then(() => this.#link.close())
    return this.#closing
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /** Keys in order, each with what is still there of it. */
  async #page({ agentId, from, count, signal }: PageOptions): Promise<readonly ListedName[]> {
    const keys = keysOfChange(this.#prefix, { agentId, key: '' })
    const reply = await this.#run(NAMES, { keys, args: [from, String(count)], signal })
    const names = redisKeys(this.#prefix, agentId)
    return Promise.all(
      listFrom(reply).map(async (name) => {
        const key = textFrom(name)
        const facts = ['HMGET', names.record(key), 'bytes', 'updatedAt', 'expiresAt']
        const [bytes, updatedAt, expiresAt] = listFrom(await this.#link.send(facts, signal))
        if (bytes === null || updatedAt === null || expiresAt === null) return { key }
        const entry: StoredEntry = {
          key,
          bytes: numberFrom(bytes),
          updatedAt: numberFrom(updatedAt),
          expiresAt: numberFrom(expiresAt),
        }
        return { key, entry }
      }),
    )
  }

  async #run({ text, sha }: RedisScript, { keys, args, signal }: RunOptions): Promise<unknown> {
    const rest = [String(keys.length), ...keys, ...args]
    try {
      return await this.#link.send(['EVALSHA', sha, ...rest], signal)
    } catch (error) {
      // A Redis that has not seen it yet, or has been started anew: it did nothing.
      if (!(error instanceof Error && error.message.startsWith('NOSCRIPT'))) throw error
      return this.#link.send(['EVAL', text, ...rest], signal)
    }
  }

  async #bounded<Result>(work: (signal: AbortSignal) => Promise<Result>): Promise<Result> {
    if (this.#closing) throw new DebugStateStoreError('CLOSED', 'The store is closed')
    const result = this.#withinLimit(work)
    this.#inFlight.add(result)
    try {
      return await result
    } catch (error) {
      throw redisErrorFrom(error, this.#server)
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

/** Keys asked for at once. */
const PAGE_KEYS = 500
const PREFIX = /^[A-Za-z0-9._:-]{1,64}$/

interface RunOptions {
  readonly keys: readonly string[]
  readonly args: readonly (string | Buffer)[]
  readonly signal: AbortSignal
}

interface PageOptions {
  readonly agentId: string
  readonly from: string
  readonly count: number
  readonly signal: AbortSignal
}

interface ListedName {
  readonly key: string
  readonly entry?: StoredEntry
}

function hostOf(url: string): string {
  const parsed = URL.canParse(url) ? new URL(url) : undefined
  if (parsed?.protocol === 'redis:' || parsed?.protocol === 'rediss:') return parsed.host
  throw new TypeError('`url` is redis:// or rediss:// with a host')
}

function jsonFrom(precondition: Precondition | undefined): string {
  return precondition ? JSON.stringify(precondition) : ''
}
