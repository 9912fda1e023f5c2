import { check, type Checks } from '@x/internal'
import { parseNumber } from '@x/internal/redis'
import { GatewayError, type GatewayStore, type Rates } from '@x/mcp-gateway'
import {
  assertGatewayOptions,
  FileBlobs,
  TokenBuckets,
  warnAboutStore,
} from '@x/mcp-gateway/adapter'
import { RedisBlobs } from './redis-blobs.ts'
import { RedisCommands, type RedisClient } from './redis-commands.ts'
import { RedisLogs } from './redis-logs.ts'
import { RedisRecords } from './redis-records.ts'
import { RedisTails } from './redis-tails.ts'
import { TAKE_TOKEN } from './scripts.ts'

export interface RedisStoreOptions {
  /** `redis[s]://[[user][:password]@]host[:port][/database]`. @default 'redis://127.0.0.1:6379' */
  readonly url?: string | undefined
  /** A connected client to use instead of `url`. The caller listens to its `error` events and closes it. */
  readonly client?: RedisClient | undefined
  /** First part of all keys: 1 to 64 of `A-Z a-z 0-9 . _ : -`. Processes with the same prefix are one gateway. @default 'mcp-gateway' */
  readonly prefix?: string | undefined
  /** A folder that all processes share, for the bytes of files. @default in Redis, in chunks */
  readonly blobFolder?: string | undefined
  /** Limit of one command, with connecting. Milliseconds. @default 2000 */
  readonly timeoutMs?: number | undefined
  /** Clock of the local rate limits that apply while Redis is down. Milliseconds since 1970. @default Date.now */
  readonly now?: (() => number) | undefined
  /** Called if a listener throws, or expired files cannot be deleted. @default a process warning */
  readonly onError?: ((error: unknown) => void) | undefined
  /** Called once each time Redis goes down and rates are counted in this process. @default a process warning */
  readonly onWarning?: ((error: unknown) => void) | undefined
}

/** A store in Redis. */
export interface RedisStore extends GatewayStore, AsyncDisposable {}

const optionChecks: Checks<RedisStoreOptions> = {
  url: check.string,
  client: check.record,
  prefix: check.string,
  blobFolder: check.text,
  timeoutMs: check.number(1),
  now: check.func,
  onError: check.func,
  onWarning: check.func,
}

/**
 * Creates a store in Redis (6.2 or newer, or Valkey), for several processes that are one gateway.
 *
 * It connects on first use. While Redis is down, each operation rejects with `UNAVAILABLE` within `timeoutMs`, and the
 * first operation after that connects again. While Redis does not answer, one operation per second waits for
 * `timeoutMs`, and the others reject at once. Tails of logs continue by themselves. Which writes survive a crash of
 * Redis depends on its settings `appendonly` and `appendfsync`.
 *
 * @throws GatewayError `CONFIG` for options that are unknown or have a wrong value
 * @example
 * ```ts
 * import { createGateway } from '@x/mcp-gateway'
 * import { redisStore } from '@x/mcp-gateway-redis'
 *
 * const gateway = createGateway({
 *   store: redisStore({ url: process.env['REDIS_URL'] }),
 *   stateKey: process.env['GATEWAY_STATE_KEY'], // the same in all processes
 * })
 * ```
 */
export function redisStore(options: RedisStoreOptions = {}): RedisStore {
  assertGatewayOptions('redisStore()', options, optionChecks)
  const { prefix = 'mcp-gateway' } = options
  if (!/^[A-Za-z0-9._:-]{1,64}$/.test(prefix)) {
    const message = '`prefix` must have 1 to 64 of the characters A-Z a-z 0-9 . _ : -'
    throw new GatewayError('CONFIG', message, { path: 'prefix' })
  }
  const { url = 'redis://127.0.0.1:6379', timeoutMs = 2000, blobFolder } = options
  const { client = url, now = Date.now, onError = warnAboutStore } = options
  const commands = new RedisCommands(client, prefix, timeoutMs)
  const tails = new RedisTails(commands, onError)
  const logs = new RedisLogs(commands, tails)
  const folder = blobFolder ? new FileBlobs(blobFolder, now, onError) : undefined
  let isClosed = false
  const isReady = async (): Promise<boolean> => {
    if (isClosed) return false
    await commands.checkWritable()
    await folder?.checkWritable()
    return true
  }
  const close = async (): Promise<void> => {
    isClosed = true
    await folder?.[Symbol.asyncDispose]()
    await tails.close()
    await commands.close()
  }
  return {
    isShared: true,
    isDurable: true,
    records: new RedisRecords(commands, logs),
    logs,
    blobs: folder ?? new RedisBlobs(commands),
    rates: redisRates(commands, now, options.onWarning ?? warnAboutRates),
    isReady,
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** Token buckets of all processes. While Redis is down, each process counts for itself. */
function redisRates(
  commands: RedisCommands,
  now: () => number,
  onWarning: (error: unknown) => void,
): Rates {
  const local = new TokenBuckets(now)
  let isDown = false
  return {
    async take(bucket, perMinute) {
      try {
        const keys = [commands.key('rate', bucket)]
        const wait = await commands.run(TAKE_TOKEN, keys, [String(perMinute)])
        isDown = false
        return parseNumber(wait)
      } catch (error) {
        if (!isDown) onWarning(error)
        isDown = true
        return local.take(bucket, perMinute)
      }
    },
  }
}

function warnAboutRates(cause: unknown): void {
  const reason = cause instanceof Error ? cause.message : 'Redis is down'
  const message = `${reason}. Until Redis is back, each process counts rates for itself`
  process.emitWarning(new GatewayError('UNAVAILABLE', message, { cause }))
}
