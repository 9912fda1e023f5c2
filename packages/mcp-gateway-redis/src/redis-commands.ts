import { GatewayError } from '@x/mcp-gateway'
import { parseText, RedisError, RedisOperations } from '@x/internal/redis'
import type {
  RedisClient as BasicClient,
  RedisCommand,
  RedisCommandOptions,
  RedisScript,
} from '@x/internal/redis'
import { createClient } from 'redis'

export type { RedisCommand, RedisCommandOptions }

/** The methods of a Redis client that the store calls. Clients of the `redis` package fit. */
export interface RedisClient extends BasicClient {
  /** Returns another connection to the same server, which is not connected yet. */
  duplicate(): RedisConnection
}

/** A connection that waits for events. */
export interface RedisConnection extends BasicClient {
  on(event: 'error' | 'ready', listener: (error?: unknown) => void): unknown
  connect(): Promise<unknown>
  destroy(): void
}

/** Time for which the key of a readiness check stays. Milliseconds. */
const PROBE_MS = '10000'

/** After a command that timed out, others reject at once for this time. */
const PAUSE_MS = 1000

/**
 * `value`: a record. `names`, `ends`: sorted sets of the keys of all records. `events`: the entries of a log. `head`: name
 * and header of a log. `wake`: a stream that ends the blocking read of a process. `blob`: bytes. `rate`: a bucket. `probe`:
 * written by readiness checks.
 */
type KeyKind = 'value' | 'names' | 'ends' | 'events' | 'head' | 'wake' | 'blob' | 'rate' | 'probe'

/** Sends commands, each within the time limit, and converts their errors. */
export class RedisCommands {
  readonly timeoutMs: number
  readonly #prefix: string
  readonly #target: string | RedisClient
  readonly #operations: RedisOperations

  /** @throws GatewayError `CONFIG` */
  constructor(target: string | RedisClient, prefix: string, timeoutMs: number) {
    this.timeoutMs = timeoutMs
    this.#prefix = prefix
    this.#target = target
    try {
      this.#operations = new RedisOperations(target, timeoutMs, PAUSE_MS)
    } catch (cause) {
      const message = '`url` must start with redis:// or rediss:// and have a host'
      throw new GatewayError('CONFIG', message, { path: 'url', cause })
    }
  }

  /** Names a key. The part in braces decides the node of a cluster: all keys of a gateway are on one. */
  key(kind: KeyKind, name?: string): string {
    return name === undefined ? `{${this.#prefix}}:${kind}` : `{${this.#prefix}}:${kind}:${name}`
  }

  /** @throws GatewayError `UNAVAILABLE`: a write that was cut off may or may not have happened; `CLOSED` */
  send(command: RedisCommand): Promise<unknown> {
    return convertErrors(this.#operations.operate(({ send }) => send(command)))
  }

  /** Runs a script as one step. @throws GatewayError as `send` does */
  run(script: RedisScript, keys: readonly string[], args: RedisCommand): Promise<unknown> {
    return convertErrors(this.#operations.operate(({ run }) => run(script, keys, args)))
  }

  /** Writes a key. @throws GatewayError as `send` does: Redis is away, full, or a replica */
  async checkWritable(): Promise<void> {
    const command = ['SET', this.key('probe'), '', 'PX', PROBE_MS]
    await convertErrors(this.#operations.probe(command))
  }

  /** Returns a connection for blocking reads. It is not connected yet, and does not connect again. */
  createReader(): RedisConnection {
    if (typeof this.#target !== 'string') return this.#target.duplicate()
    return createClient({
      url: this.#target,
      disableOfflineQueue: true,
      commandOptions: { timeout: 0 },
      socket: { connectTimeout: this.timeoutMs, reconnectStrategy: false },
    })
  }

  /** Waits for commands in flight. Each of them ends within the time limit. */
  async close(): Promise<void> {
    await this.#operations.close()
  }
}

async function convertErrors<Result>(work: Promise<Result>): Promise<Result> {
  try {
    return await work
  } catch (error) {
    if (!(error instanceof RedisError)) throw error
    const code = error.code === 'CLOSED' ? 'CLOSED' : 'UNAVAILABLE'
    throw new GatewayError(code, error.message, { cause: error.cause ?? error })
  }
}

export function parseJson(reply: unknown): unknown {
  return JSON.parse(parseText(reply))
}

/** Ends a connection, in whatever state it is. */
export function destroy(connection: RedisConnection): void {
  try {
    connection.destroy()
  } catch {
    // The connection is closed already: versions of the client before 6.3 throw then.
  }
}

/** Returns a time to live as Redis takes it. */
export function wholeMs(ms: number): string {
  return String(Math.max(1, Math.round(ms)))
}
