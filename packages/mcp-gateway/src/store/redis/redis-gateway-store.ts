import { check } from '@x/internal'
import type { Checks } from '@x/internal'
import { assertGatewayOptions, GatewayError } from '../../errors.ts'
import { FileBlobs } from '../file-blobs.ts'
import type { Blobs, GatewayStore } from '../gateway-store.ts'
import { warnOfListener } from '../memory-gateway-store.ts'
import type { RedisClient } from './redis-client.ts'
import { RedisBlobs } from './redis-blobs.ts'
import { RedisCommands } from './redis-commands.ts'
import { borrowedLink, RedisConnection } from './redis-connection.ts'
import { redisKeys } from './redis-keys.ts'
import { RedisEventLogs } from './redis-event-logs.ts'
import { RedisLogs } from './redis-logs.ts'
import { RedisMessages } from './redis-messages.ts'
import { RedisRates } from './redis-rates.ts'
import { RedisTails } from './redis-tails.ts'
import { RedisValues } from './redis-values.ts'

export interface RedisGatewayStoreOptions {
  /** `redis[s]://[[user][:password]@]host[:port][/database]`. @default 'redis://127.0.0.1:6379' */
  readonly url?: string | undefined
  /** A client of yours in place of `url`: connected, and listened to for its `error` events. Yours to close. */
  readonly client?: RedisClient | undefined
  /** First part of all keys: 1 to 64 of `A-Z a-z 0-9 . _ : -`. Gateways with the same one are one. @default 'mcp-gateway' */
  readonly prefix?: string | undefined
  /** A folder that all of them share, for the bytes of files. @default in Redis, in chunks */
  readonly blobFolder?: string | undefined
  /** Limit of one command, with connecting. @default 2000 */
  readonly timeoutMs?: number | undefined
  /** Of local rates while Redis is away. Milliseconds since 1970. @default Date.now */
  readonly now?: (() => number) | undefined
  /** What a listener of a message threw. @default a process warning */
  readonly onError?: ((error: unknown) => void) | undefined
  /** Redis is away, and rates are counted here: told once each time. @default a process warning */
  readonly onWarning?: ((error: unknown) => void) | undefined
}

const optionChecks: Checks<RedisGatewayStoreOptions> = {
  url: check.string, // parsed, and refused with an error of its own, by RedisConnection
  client: check.record,
  prefix: check.string,
  blobFolder: check.text,
  timeoutMs: check.number(1),
  now: check.func,
  onError: check.func,
  onWarning: check.func,
}

/**
 * Keeps what gateways have to remember in Redis (6.2 or newer, or Valkey), for several processes that are one
 * gateway. Opens nothing until it is used. While Redis is away, each operation rejects with `UNAVAILABLE`
 * within `timeoutMs`, and the first one after its return connects again; where it hangs, one operation a
 * second waits so long, and the others reject at once. Subscriptions come back by themselves. What was
 * acknowledged survives a crash of Redis as far as Redis is told to write it down.
 */
export class RedisGatewayStore implements GatewayStore, AsyncDisposable {
  readonly isShared = true
  readonly values: RedisValues
  readonly logs: RedisLogs
  readonly eventLogs: RedisEventLogs
  readonly messages: RedisMessages
  readonly blobs: Blobs
  readonly rates: RedisRates
  readonly #commands: RedisCommands
  readonly #tails: RedisTails

  /** @throws GatewayError `CONFIG`: a `url` that is none of Redis, a `prefix` with other characters */
  constructor(options: RedisGatewayStoreOptions = {}) {
    assertGatewayOptions('RedisGatewayStore', options, optionChecks)
    const { url = 'redis://127.0.0.1:6379', prefix = 'mcp-gateway', timeoutMs = 2000 } = options
    const { now = Date.now, onError = warnOfListener, onWarning = warnOfRates, client } = options
    if (!PREFIX.test(prefix)) {
      throw new GatewayError('CONFIG', '`prefix` has 1 to 64 of the characters A-Z a-z 0-9 . _ : -')
    }
    const link = client ? borrowedLink(client) : new RedisConnection(url, timeoutMs)
    const keys = redisKeys(prefix)
    const commands = new RedisCommands(link, { timeoutMs })
    this.#commands = commands
    this.values = new RedisValues(commands, keys)
    this.logs = new RedisLogs(commands, keys)
    const connection = link.reader.bind(link)
    this.#tails = new RedisTails({ commands, keys, connection, timeoutMs, onError })
    this.eventLogs = new RedisEventLogs(commands, keys, this.#tails)
    const subscriber = link.subscriber.bind(link)
    this.messages = new RedisMessages({ commands, keys, subscriber, timeoutMs, onError })
    this.blobs = options.blobFolder
      ? new FileBlobs(options.blobFolder, now)
      : new RedisBlobs(commands, keys)
    this.rates = new RedisRates({ commands, keys, now, onWarning })
  }

  async isReady(): Promise<boolean> {
    try {
      await this.#commands.ping()
      return true
    } catch {
      return false
    }
  }

  async close(): Promise<void> {
    await this.messages.close()
    await this.#tails.close()
    await this.#commands.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}

const PREFIX = /^[A-Za-z0-9._:-]{1,64}$/

function warnOfRates(cause: unknown): void {
  const message = 'Redis is away: until it is back, rates are counted in each process'
  process.emitWarning(new GatewayError('UNAVAILABLE', message, { cause }))
}
