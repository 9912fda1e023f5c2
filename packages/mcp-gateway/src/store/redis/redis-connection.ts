import type * as Redis from 'redis'
import { GatewayError } from '../../errors.ts'
import type { RedisClient, RedisCommand, RedisSubscriber } from './redis-client.ts'

/** How messages' own connection waits before it tries again: up to half a minute. */
const RETRY_MAX_MS = 30_000
/** So that a connection that died silently is noticed. */
const PING_EVERY_MS = 10_000
const BYTES: { readonly 36: BufferConstructor } = { 36: Buffer }

/** The ways to a Redis: one for commands, others for messages. */
export interface RedisLink {
  /** For errors. Names no password. */
  readonly name: string
  send(command: RedisCommand, signal: AbortSignal): Promise<unknown>
  /** Not connected yet. Connects again by itself whenever it breaks. */
  subscriber(): Promise<RedisSubscriber>
  /** Not connected yet. Does not connect again. */
  reader(): Promise<RedisSubscriber>
  /** Redis did not answer in time: all that wait for the same are told so. */
  giveUp(): void
  close(): Promise<void>
}

/** A client that the caller connects, listens to and closes. */
export function borrowedLink(client: RedisClient): RedisLink {
  return {
    name: 'the given client',
    send: (command, abortSignal) =>
      client.sendCommand(command, { abortSignal, typeMapping: BYTES }),
    subscriber: async () => client.duplicate(),
    reader: async () => client.duplicate(),
    giveUp() {},
    async close() {},
  }
}

/**
 * One connection at a time for commands, made when one needs it, by one attempt that all share. One that
 * breaks or does not answer is dropped, and the next command makes a new one: nothing goes on in the
 * background while Redis is away.
 */
export class RedisConnection implements RedisLink {
  readonly name: string
  readonly #url: string
  readonly #timeoutMs: number
  #current: Attempt | undefined
  readonly #connecting = new Set<Promise<unknown>>()

  constructor(url: string, timeoutMs: number) {
    this.name = hostOf(url)
    this.#url = url
    this.#timeoutMs = timeoutMs
  }

  async send(command: RedisCommand, abortSignal: AbortSignal): Promise<unknown> {
    const client = await this.#attempt().client
    abortSignal.throwIfAborted()
    return client.sendCommand([...command], { abortSignal, typeMapping: BYTES })
  }

  async subscriber(): Promise<RedisSubscriber> {
    const { createClient } = await loadRedis()
    return createClient({
      url: this.#url,
      pingInterval: PING_EVERY_MS,
      socket: {
        connectTimeout: this.#timeoutMs,
        socketTimeout: PING_EVERY_MS * 2,
        reconnectStrategy: (failures) => Math.min(RETRY_MAX_MS, 50 * 2 ** Math.min(failures, 10)),
      },
    })
  }

  async reader(): Promise<RedisSubscriber> {
    const { createClient } = await loadRedis()
    return createClient({
      url: this.#url,
      disableOfflineQueue: true,
      commandOptions: { timeout: 0 },
      socket: { connectTimeout: this.#timeoutMs, reconnectStrategy: false },
    })
  }

  giveUp(): void {
    this.#drop(this.#current)
  }

  async close(): Promise<void> {
    this.#drop(this.#current)
    await Promise.allSettled(this.#connecting)
  }

  #attempt(): Attempt {
    if (this.#current) return this.#current
    const ending = new AbortController()
    const attempt: Attempt = {
      client: this.#connect(ending.signal, () => this.#drop(attempt)),
      end: () => ending.abort(),
    }
    this.#current = attempt
    const settled = attempt.client.catch(() => this.#drop(attempt))
    this.#connecting.add(settled)
    void settled.finally(() => this.#connecting.delete(settled))
    return attempt
  }

  async #connect(signal: AbortSignal, onBroken: () => void): Promise<Commands> {
    const { createClient } = await loadRedis()
    const client = createClient({
      url: this.#url,
      disableOfflineQueue: true,
      commandOptions: { timeout: 0 }, // the whole operation is limited, not each command
      socket: { connectTimeout: this.#timeoutMs, reconnectStrategy: false },
    })
    const end = (): void => {
      try {
        client.destroy()
      } catch {
        // It has ended by itself: versions before 6.3 throw then.
      }
    }
    // Without a listener it would end the process. Later, so that commands in flight learn of this error first.
    client.on('error', () => queueMicrotask(onBroken))
    // Until then there is no socket that could be destroyed.
    client.on('connect', () => signal.aborted && end())
    signal.addEventListener('abort', end, { once: true })
    await client.connect()
    return client
  }

  /** News of an older connection comes too late: it must not end the one that replaced it. */
  #drop(attempt: Attempt | undefined): void {
    attempt?.end()
    if (this.#current === attempt) this.#current = undefined
  }
}

type Commands = Pick<RedisClient, 'sendCommand'>

interface Attempt {
  readonly client: Promise<Commands>
  end(): void
}

function hostOf(url: string): string {
  const parsed = URL.canParse(url) ? new URL(url) : undefined
  if (parsed?.protocol === 'redis:' || parsed?.protocol === 'rediss:') return parsed.host
  throw new GatewayError('CONFIG', '`url` is redis:// or rediss:// with a host')
}

/** Loaded on first use: who keeps everything in one process need not install it. */
async function loadRedis(): Promise<typeof Redis> {
  try {
    return await import('redis')
  } catch (cause) {
    const message = 'A store in Redis needs the package redis: install it, or pass a `client`'
    throw new GatewayError('CONFIG', message, { cause })
  }
}
