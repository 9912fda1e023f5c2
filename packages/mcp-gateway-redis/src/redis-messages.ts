import { within as settleWithin } from '@x/internal'
import { parseNumber } from '@x/internal/redis'
import { GatewayError } from '@x/mcp-gateway'
import type { Messages } from '@x/mcp-gateway'
import { toJsonText } from '@x/mcp-gateway/adapter'
import { destroy } from './redis-commands.ts'
import type { RedisCommands, RedisConnection } from './redis-commands.ts'
import { PUBLISH } from './scripts.ts'

/**
 * Messages by pub/sub, which loses them while a connection is down. So each carries a number of its topic:
 * whoever sees one missing, or a connection come back to another number, is told of a gap.
 */
export class RedisMessages implements Messages {
  readonly #commands: RedisCommands
  readonly #onError: (error: unknown) => void
  readonly #topics = new Map<string, Topic>()
  #connecting: Promise<RedisConnection> | undefined
  #isClosed = false

  constructor(commands: RedisCommands, onError: (error: unknown) => void) {
    this.#commands = commands
    this.#onError = onError
  }

  async publish(topic: string, message: unknown): Promise<void> {
    const { keys } = this.#commands
    const args = [keys.channel(topic), toJsonText(message)]
    await this.#commands.run(PUBLISH, [keys.counter(topic)], args)
  }

  async subscribe(
    name: string,
    onMessage: (message: unknown) => void,
    onGap: () => void = () => {},
  ): Promise<() => void> {
    if (this.#isClosed) throw new GatewayError('CLOSED', 'The store is closed')
    const topic = this.#topics.get(name) ?? this.#open(name)
    const entry: Listener = { onMessage, onGap }
    topic.listeners.add(entry)
    const end = (): void => {
      topic.listeners.delete(entry)
      if (topic.listeners.size > 0 || this.#topics.get(name) !== topic) return
      this.#topics.delete(name)
      void this.#leave(name, topic)
    }
    try {
      await topic.subscribed
      return end
    } catch (error) {
      end()
      throw error
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#topics.clear()
    const connecting = this.#connecting
    this.#connecting = undefined
    await connecting?.then(destroy, () => {})
  }

  #open(name: string): Topic {
    const topic: Topic = {
      listeners: new Set(),
      seen: undefined,
      receive: (text) => this.#received(topic, text),
      subscribed: Promise.resolve(),
    }
    topic.subscribed = this.#join(name, topic)
    topic.subscribed.catch(() => this.#topics.get(name) === topic && this.#topics.delete(name))
    this.#topics.set(name, topic)
    return topic
  }

  async #join(name: string, topic: Topic): Promise<void> {
    const { keys, timeoutMs } = this.#commands
    const client = await within(timeoutMs, (this.#connecting ??= this.#connect()))
    await within(timeoutMs, client.subscribe(keys.channel(name), topic.receive))
    topic.seen ??= await this.#count(name)
  }

  async #leave(name: string, topic: Topic): Promise<void> {
    try {
      const client = await this.#connecting
      await client?.unsubscribe(this.#commands.keys.channel(name), topic.receive)
    } catch {
      // The connection is gone, and the subscription with it; nobody listens any more in any case.
    }
  }

  /** One connection for all topics. A first attempt that fails is over; a later break is healed by the client. */
  async #connect(): Promise<RedisConnection> {
    const client = this.#commands.createSubscriber()
    let hasConnected = false
    // Without a listener it would end the process. What was lost shows in the numbers.
    client.on('error', () => {})
    client.on('ready', () => {
      if (hasConnected) void this.#lookForGaps()
      hasConnected = true
    })
    try {
      await within(this.#commands.timeoutMs, client.connect())
      if (this.#isClosed) throw new GatewayError('CLOSED', 'The store is closed')
      return client
    } catch (error) {
      this.#connecting = undefined
      destroy(client)
      throw error
    }
  }

  #received(topic: Topic, text: string): void {
    const [, digits = '', json = ''] = /^(\d+):([^]*)$/.exec(text) ?? []
    const number = Number(digits)
    const missed = topic.seen !== undefined && number > topic.seen + 1
    topic.seen = Math.max(topic.seen ?? 0, number)
    if (missed) this.#tell(topic, ({ onGap }) => onGap())
    this.#tell(topic, ({ onMessage }) => onMessage(JSON.parse(json)))
  }

  async #lookForGaps(): Promise<void> {
    for (const [name, topic] of this.#topics) {
      const before = topic.seen ?? 0
      const count = await this.#count(name).catch(() => undefined)
      // Messages that arrived while the counter was read have been checked by their own numbers. A counter that
      // cannot be read, or that went back, may hide a gap.
      if (count !== undefined && count >= before && count <= (topic.seen ?? -1)) continue
      topic.seen = count
      this.#tell(topic, ({ onGap }) => onGap())
    }
  }

  async #count(name: string): Promise<number> {
    const reply = await this.#commands.send(['GET', this.#commands.keys.counter(name)])
    return reply === null ? 0 : parseNumber(reply)
  }

  #tell(topic: Topic, call: (listener: Listener) => void): void {
    for (const listener of new Set(topic.listeners)) {
      try {
        call(listener)
      } catch (error) {
        this.#onError(error)
      }
    }
  }
}

interface Listener {
  readonly onMessage: (message: unknown) => void
  readonly onGap: () => void
}

interface Topic {
  readonly listeners: Set<Listener>
  /** Number of the last message that was received or is known to be behind us. */
  seen: number | undefined
  readonly receive: (text: string) => void
  subscribed: Promise<void>
}

async function within<Result>(timeoutMs: number, work: Promise<Result>): Promise<Result> {
  try {
    return await settleWithin(work, timeoutMs, () => {
      throw new GatewayError('UNAVAILABLE', `Redis did not answer within ${timeoutMs} ms`)
    })
  } catch (cause) {
    if (GatewayError.is(cause)) throw cause
    throw new GatewayError('UNAVAILABLE', 'Redis cannot be subscribed to: see the cause', { cause })
  }
}
