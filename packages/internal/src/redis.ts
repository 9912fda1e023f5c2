// Code of the stores in Redis. A separate entry, because nothing else needs the redis package.
import { createHash } from 'node:crypto'
import type * as Redis from 'redis'

/** The words of a command. */
export type RedisCommand = readonly (string | Buffer)[]

/** Options that a store passes with each command. */
export interface RedisCommandOptions {
  /** A command that was not sent before this aborts must not be sent. */
  readonly abortSignal?: AbortSignal
  /** `{ 36: Buffer }`: strings (36 is `$`, their mark in the protocol of Redis) are returned as bytes. */
  readonly typeMapping?: { readonly 36: BufferConstructor }
}

/** The method of a Redis client that a store calls. Clients of the `redis` package fit. */
export interface RedisClient {
  sendCommand(command: RedisCommand, options?: RedisCommandOptions): Promise<unknown>
}

/** Why an operation in Redis failed. */
export type RedisErrorCode =
  | 'CLOSED' // close() was called
  | 'UNAVAILABLE' // no connection, a missing package, or any other failure
  | 'TIMEOUT' // no answer in time
  | 'DENIED' // wrong user or password, or a missing permission
  | 'READ_ONLY' // the server is a replica
  | 'FULL' // the server has reached its memory limit
  | 'FOREIGN' // a key has a value of another type, written by another program
  | 'CORRUPT' // an unexpected reply

/** An operation in Redis failed. The message names the server, without user and password, and says what to do. */
export class RedisError extends Error {
  override readonly name = 'RedisError'
  readonly code: RedisErrorCode

  constructor(code: RedisErrorCode, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

/** A script that Redis runs as one step. */
export interface RedisScript {
  readonly text: string
  /** Name of the script in Redis, once Redis has run it. */
  readonly sha: string
}

export function createRedisScript(text: string): RedisScript {
  return { text, sha: createHash('sha1').update(text).digest('hex') }
}

/** The commands of one operation. */
export interface RedisOperation {
  readonly send: (command: RedisCommand) => Promise<unknown>
  readonly run: (
    script: RedisScript,
    keys: readonly string[],
    args: RedisCommand,
  ) => Promise<unknown>
}

/**
 * Runs operations in Redis, each within a time limit. It connects when an operation needs it, and concurrent
 * operations share one connection. A connection that breaks or does not answer is dropped, and the next operation
 * connects again. So nothing runs in the background while Redis is down, and no command is sent twice.
 */
export class RedisOperations {
  readonly #client: RedisClient
  readonly #connection: RedisConnection | undefined
  readonly #server: string
  readonly #timeoutMs: number
  readonly #pauseMs: number
  /** Earliest time of the next operation after one that timed out. `Infinity` while a single operation is tried. */
  #nextAt: number | undefined
  readonly #inFlight = new Set<Promise<unknown>>()
  #closing: Promise<void> | undefined

  /**
   * @param target the URL of a server, or a client that the caller connects and closes
   * @param timeoutMs limit of one operation, with connecting
   * @param pauseMs after an operation timed out, others reject at once for this time. Then a single one is tried.
   *   0: all operations wait for `timeoutMs`
   * @throws TypeError for a URL that is not a Redis URL
   */
  constructor(target: string | RedisClient, timeoutMs: number, pauseMs = 0) {
    this.#timeoutMs = timeoutMs
    this.#pauseMs = pauseMs
    if (typeof target === 'string') {
      this.#server = parseHost(target)
      this.#connection = new RedisConnection(target, timeoutMs)
      this.#client = this.#connection
    } else {
      this.#server = 'the given client'
      this.#client = target
    }
  }

  /** @throws RedisError. A write that was cut off may or may not have happened */
  operate<Result>(work: (operation: RedisOperation) => Promise<Result>): Promise<Result> {
    if (!this.#mayStart()) {
      const message = `Redis at ${this.#server} did not answer the operation before this one in time`
      return Promise.reject(new RedisError('TIMEOUT', message))
    }
    return this.#operate(work)
  }

  /** Sends a command that checks the server. Never rejects at once because another operation timed out. @throws RedisError */
  async probe(command: RedisCommand): Promise<void> {
    await this.#operate(({ send }) => send(command))
  }

  #mayStart(): boolean {
    if (this.#nextAt === undefined) return true
    if (performance.now() < this.#nextAt) return false
    this.#nextAt = Infinity
    return true
  }

  async #operate<Result>(work: (operation: RedisOperation) => Promise<Result>): Promise<Result> {
    if (this.#closing) throw new RedisError('CLOSED', 'The store is closed')
    const result = this.#withinLimit(work)
    this.#inFlight.add(result)
    try {
      const value = await result
      this.#nextAt = undefined
      return value
    } catch (error) {
      // After an operation that fails at once, the next one may start.
      if (this.#nextAt === Infinity) this.#nextAt = undefined
      throw toRedisError(error, this.#server)
    } finally {
      this.#inFlight.delete(result)
    }
  }

  /** Waits for operations in flight. Each of them ends within the time limit. */
  close(): Promise<void> {
    this.#closing ??= Promise.allSettled(this.#inFlight).then(() => this.#connection?.close())
    return this.#closing
  }

  async #withinLimit<Result>(
    work: (operation: RedisOperation) => Promise<Result>,
  ): Promise<Result> {
    await this.#connection?.load() // loading the package does not count as time of Redis
    const deadline = new AbortController()
    const options = { abortSignal: deadline.signal, typeMapping: BYTES }
    const send = (command: RedisCommand): Promise<unknown> =>
      this.#client.sendCommand(command, options)
    const run: RedisOperation['run'] = async ({ text, sha }, keys, args) => {
      const rest = [String(keys.length), ...keys, ...args]
      try {
        return await send(['EVALSHA', sha, ...rest])
      } catch (error) {
        // This Redis does not know the script yet, or was restarted. It executed nothing.
        if (!(error instanceof Error && error.message.startsWith('NOSCRIPT'))) throw error
        return send(['EVAL', text, ...rest])
      }
    }
    let stop: (() => void) | undefined
    const late = new Promise<never>((_resolve, reject) => {
      stop = callAfterAwake(this.#timeoutMs, () => {
        const message = `Redis at ${this.#server} did not answer within ${this.#timeoutMs} ms`
        const error = new RedisError('TIMEOUT', message)
        if (this.#pauseMs > 0) this.#nextAt = performance.now() + this.#pauseMs
        reject(error)
        deadline.abort(error)
        this.#connection?.giveUp(error)
      })
    })
    try {
      return await Promise.race([work({ send, run }), late])
    } finally {
      stop?.()
    }
  }
}

const BYTES = { 36: Buffer } as const

/** A time limit is counted in so many pieces. */
const PIECES = 8

/**
 * Calls back after so much time in which this process could have read an answer. A process that is busy, for example
 * because it loads a graph, must not take that for a silent server. Time in which it was busy counts as one piece at
 * most, and answers that have arrived are read before the callback.
 *
 * @returns a function that prevents the callback
 */
function callAfterAwake(ms: number, callback: () => void): () => void {
  let left = PIECES
  let timer: NodeJS.Timeout
  let last: NodeJS.Immediate | undefined
  const onPiece = (): void => {
    left -= 1
    if (left > 0) wait()
    else last = setImmediate(callback)
  }
  const wait = (): void => {
    timer = setTimeout(onPiece, ms / PIECES)
  }
  wait()
  return () => {
    clearTimeout(timer)
    clearImmediate(last)
  }
}

/** One connection at a time, made by the first command that needs it. */
class RedisConnection implements RedisClient {
  readonly #url: string
  readonly #timeoutMs: number
  #redis: typeof Redis | undefined
  #current: Attempt | undefined
  readonly #connecting = new Set<Promise<unknown>>()

  constructor(url: string, timeoutMs: number) {
    this.#url = url
    this.#timeoutMs = timeoutMs
  }

  /** Loads the package on first use: users of other stores need not install it. */
  async load(): Promise<typeof Redis> {
    try {
      return (this.#redis ??= await import('redis'))
    } catch (cause) {
      const message = 'The package redis is missing: install it, or pass a `client`'
      throw new RedisError('UNAVAILABLE', message, { cause })
    }
  }

  async sendCommand(command: RedisCommand, options: RedisCommandOptions): Promise<unknown> {
    const { client, ending } = this.#connect(this.#redis ?? (await this.load()))
    try {
      const connected = await client
      options.abortSignal?.throwIfAborted()
      return await connected.sendCommand(command, options)
    } catch (error) {
      // The reason why the connection was dropped says more than the error of the client.
      const { reason } = ending.signal
      throw reason instanceof RedisError ? reason : error
    }
  }

  /** Drops the connection. Its other commands fail with the same reason. */
  giveUp(reason: RedisError): void {
    this.#drop(this.#current, reason)
  }

  async close(): Promise<void> {
    this.#drop(this.#current)
    await Promise.allSettled(this.#connecting)
  }

  #connect(redis: typeof Redis): Attempt {
    if (this.#current) return this.#current
    const ending = new AbortController()
    const attempt: Attempt = {
      client: this.#open(redis, ending.signal, () => this.#drop(attempt)),
      ending,
    }
    this.#current = attempt
    const settled = attempt.client.catch(() => this.#drop(attempt))
    this.#connecting.add(settled)
    void settled.finally(() => this.#connecting.delete(settled))
    return attempt
  }

  /** `signal` ends the connection, also while it is being made. */
  async #open(
    redis: typeof Redis,
    signal: AbortSignal,
    onBroken: () => void,
  ): Promise<RedisClient> {
    const client = redis.createClient({
      url: this.#url,
      disableOfflineQueue: true,
      commandOptions: { timeout: 0 }, // the whole operation has a limit
      socket: { connectTimeout: this.#timeoutMs, reconnectStrategy: false },
    })
    const destroy = (): void => {
      try {
        client.destroy()
      } catch {
        // The client has ended already: versions before 6.3 throw then.
      }
    }
    // An `error` event without a listener ends the process. Delayed, so that commands in flight get the error first.
    client.on('error', () => queueMicrotask(onBroken))
    // `destroy()` does nothing before this event, because the client has no socket yet.
    client.on('connect', () => signal.aborted && destroy())
    signal.addEventListener('abort', destroy, { once: true })
    await client.connect()
    return client
  }

  /** A late error of an older connection does not end the current one. */
  #drop(attempt: Attempt | undefined, reason?: RedisError): void {
    attempt?.ending.abort(reason)
    if (this.#current === attempt) this.#current = undefined
  }
}

interface Attempt {
  readonly client: Promise<RedisClient>
  /** Aborted when the connection is dropped, with the reason. */
  readonly ending: AbortController
}

function parseHost(url: string): string {
  const parsed = URL.canParse(url) ? new URL(url) : undefined
  if (parsed?.protocol === 'redis:' || parsed?.protocol === 'rediss:') return parsed.host
  throw new TypeError('`url` must start with redis:// or rediss:// and have a host')
}

/** @param server its host and port, for the message */
export function toRedisError(error: unknown, server: string): RedisError {
  if (error instanceof RedisError) return error
  const reason = reasonOf(error)
  // The first word of an error reply. Before Redis 7, that of a command in a script comes later, after a hyphen.
  const [, kind = ''] = /: -([A-Z]+) /.exec(reason) ?? /^([A-Z]+) /.exec(reason) ?? []
  const [code, advice] = FAILURES[kind] ?? ['UNAVAILABLE', `cannot be used: ${reason}`]
  return new RedisError(code, `Redis at ${server} ${advice}`, { cause: error })
}

/** The error for a host name with several addresses has no message, but a code. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.message || ('code' in error ? String(error.code) : error.name)
}

type Failure = readonly [code: RedisErrorCode, advice: string]

const DENIED: Failure = ['DENIED', 'refused access: check user, password and ACL']

const FAILURES: Readonly<Record<string, Failure>> = {
  NOAUTH: DENIED,
  WRONGPASS: DENIED,
  NOPERM: DENIED,
  READONLY: ['READ_ONLY', 'is a replica: use the address of the primary'],
  OOM: ['FULL', 'has reached its maxmemory: give it more'],
  WRONGTYPE: ['FOREIGN', 'has keys of another program under this prefix: choose another prefix'],
}

// Replies are checked before use: a proxy or another version may answer anything.

export function parseList(reply: unknown): readonly unknown[] {
  if (Array.isArray(reply)) return reply
  throw createReplyError('a list')
}

export function parseBytes(reply: unknown): Uint8Array {
  if (reply instanceof Uint8Array) return reply
  throw createReplyError('bytes')
}

export function parseText(reply: unknown): string {
  return Buffer.from(parseBytes(reply)).toString()
}

export function parseNumber(reply: unknown): number {
  const number = typeof reply === 'number' ? reply : Number(parseText(reply))
  if (Number.isFinite(number)) return number
  throw createReplyError('a number')
}

function createReplyError(expected: string): RedisError {
  return new RedisError('CORRUPT', `Redis did not answer with ${expected}`)
}
