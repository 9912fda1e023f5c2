import { GatewayError } from '../../errors.ts'
import { afterAwake, noUndo } from './awake-timer.ts'
import { RedisBreaker } from './redis-breaker.ts'
import type { RedisCommand } from './redis-client.ts'
import type { RedisLink } from './redis-connection.ts'
import type { RedisScript } from './redis-scripts.ts'

export interface RedisCommandsOptions {
  /** Of one command, with connecting. */
  readonly timeoutMs: number
  /** Milliseconds, of whatever start. @default performance.now */
  readonly now?: (() => number) | undefined
}

/** After a command that was not answered in time, others fail at once for so long. */
const PAUSE_MS = 1000

/** Sends commands within a bound each, and says in our words why one failed. */
export class RedisCommands {
  readonly #link: RedisLink
  readonly #timeoutMs: number
  readonly #breaker: RedisBreaker
  readonly #inFlight = new Set<Promise<unknown>>()
  #closing: Promise<void> | undefined

  constructor(link: RedisLink, options: RedisCommandsOptions) {
    const { timeoutMs, now = () => performance.now() } = options
    this.#link = link
    this.#timeoutMs = timeoutMs
    this.#breaker = new RedisBreaker({ pauseMs: PAUSE_MS, now })
  }

  /** Whether it answers, asked also while other commands are spared the wait. @throws GatewayError `UNAVAILABLE`, `CLOSED` */
  ping(): Promise<unknown> {
    return this.#bounded((signal) => this.#link.send(['PING'], signal), { isPing: true })
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

  async #bounded(work: Work, { isPing = false } = {}): Promise<unknown> {
    if (this.#closing) throw new GatewayError('CLOSED', 'The store is closed')
    if (!isPing && !this.#breaker.admits()) {
      const message = `Redis at ${this.#link.name} did not answer in time just now`
      throw new GatewayError('UNAVAILABLE', message)
    }
    const result = this.#withinLimit(work)
    this.#inFlight.add(result)
    try {
      const reply = await result
      this.#breaker.answered()
      return reply
    } catch (error) {
      this.#breaker.failed()
      throw redisErrorFrom(error, this.#link.name)
    } finally {
      this.#inFlight.delete(result)
    }
  }

  async #withinLimit(work: Work): Promise<unknown> {
    const deadline = new AbortController()
    let undo = noUndo
    const expired = new Promise<never>((_resolve, reject) => {
      undo = afterAwake(this.#timeoutMs, () => {
        const message = `Redis at ${this.#link.name} did not answer within ${this.#timeoutMs} ms`
        this.#breaker.late()
        reject(new GatewayError('UNAVAILABLE', message))
        deadline.abort()
        this.#link.giveUp()
      })
    })
    try {
      return await Promise.race([work(deadline.signal), expired])
    } finally {
      undo()
    }
  }
}

type Work = (signal: AbortSignal) => Promise<unknown>

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
