import { GatewayError } from '../../gateway-error.ts'
import type { RedisCommand } from './redis-client.ts'
import type { RedisLink } from './redis-connection.ts'
import type { RedisScript } from './redis-scripts.ts'

/** Sends commands within a bound each, and says in our words why one failed. */
export class RedisCommands {
  readonly #link: RedisLink
  readonly #timeoutMs: number
  readonly #inFlight = new Set<Promise<unknown>>()
  #closing: Promise<void> | undefined

  constructor(link: RedisLink, timeoutMs: number) {
    this.#link = link
    this.#timeoutMs = timeoutMs
  }

  /** @throws GatewayError `UNAVAILABLE`: of a write that was cut off, nothing is known; `CLOSED` */
  send(command: RedisCommand): Promise<unknown> {
    return this.#bounded((signal) => this.#link.send(command, signal))
  }

  /** In one step: nothing else happens between its first line and its last. */
  run(
    script: RedisScript,
    keys: readonly string[],
    args: readonly (string | Buffer)[],
  ): Promise<unknown> {
    const rest = [String(keys.length), ...keys, ...args]
    return this.#bounded(async (signal) => {
      try {
        return await this.#link.send(['EVALSHA', script.sha, ...rest], signal)
      } catch (error) {
        // A Redis that has not seen it yet, or was started anew: it did nothing.
        if (!(error instanceof Error && error.message.startsWith('NOSCRIPT'))) throw error
        return this.#link.send(['EVAL', script.text, ...rest], signal)
      }
    })
  }

  /** Waits for what is in flight, each of which ends within its bound. */
  close(): Promise<void> {
    this.#closing ??= Promise.allSettled(this.#inFlight).then(() => this.#link.close())
    return this.#closing
  }

  async #bounded(work: (signal: AbortSignal) => Promise<unknown>): Promise<unknown> {
    if (this.#closing) throw new GatewayError('CLOSED', 'The store is closed')
    const result = this.#withinLimit(work)
    this.#inFlight.add(result)
    try {
      return await result
    } catch (error) {
      throw redisErrorFrom(error, this.#link.name)
    } finally {
      this.#inFlight.delete(result)
    }
  }

  async #withinLimit(work: (signal: AbortSignal) => Promise<unknown>): Promise<unknown> {
    const deadline = new AbortController()
    let timer: NodeJS.Timeout | undefined
    const expired = new Promise<never>((_resolve, reject) => {
      timer = setTimeout(() => {
        const message = `Redis at ${this.#link.name} did not answer within ${this.#timeoutMs} ms`
        reject(new GatewayError('UNAVAILABLE', message))
        deadline.abort()
        this.#link.giveUp()
      }, this.#timeoutMs)
    })
    try {
      return await Promise.race([work(deadline.signal), expired])
    } finally {
      clearTimeout(timer)
    }
  }
}

/** What Redis answered, or its client threw. */
function redisErrorFrom(error: unknown, server: string): GatewayError {
  if (GatewayError.is(error)) return error
  const reason = error instanceof Error ? error.message : String(error)
  const [, kind = ''] = /(?:^|: -)([A-Z]+) /.exec(reason) ?? []
  const advice = ADVICE[kind] ?? 'cannot be used now: see the cause'
  return new GatewayError('UNAVAILABLE', `Redis at ${server} ${advice}`, { cause: error })
}

const DENIED = 'does not let us in: check user, password and ACL'

const ADVICE: Readonly<Record<string, string>> = {
  NOAUTH: DENIED,
  WRONGPASS: DENIED,
  NOPERM: DENIED,
  READONLY: 'is a replica: name the primary',
  OOM: 'has reached its maxmemory: give it more',
  WRONGTYPE: 'has keys of another program under this prefix: choose another prefix',
}
