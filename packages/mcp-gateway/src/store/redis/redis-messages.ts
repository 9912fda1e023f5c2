import { GatewayError } from '../../errors.ts'
import type { Messages } from '../gateway-store.ts'
import { jsonTextOf } from '../json-text.ts'
import { afterAwake, noUndo } from './awake-timer.ts'
import type { RedisSubscriber } from './redis-client.ts'
import type { RedisCommands } from './redis-commands.ts'
import type { RedisKeys } from './redis-keys.ts'
import { numberFrom } from './redis-reply.ts'
import { PUBLISH } from './redis-scripts.ts'

export interface RedisMessagesOptions {
  readonly commands: RedisCommands
  readonly keys: RedisKeys
  /** A new connection for messages. */
  readonly subscriber: () => Promise<RedisSubscriber>
  readonly timeoutMs: number
  readonly onError: (error: unknown) => void
}

/**
 * Messages by pub/sub, which loses them while a connection is down. So each carries a number of its topic:
 * whoever sees one missing, or a connection come back to another number, is told of a gap.
 */
export class RedisMessages implements Messages {
  readonly #options: RedisMessagesOptions
  readonly #topics = new Map<string, Topic>()
  #connecting: Promise<RedisSubscriber> | undefined
  #isClosed = false

  constructor(options: RedisMessagesOptions) {
    this.#options = options
  }

  async publish(topic: string, message: unknown): Promise<void> {
    const { commands, keys } = this.#options
    const args = [keys.channel(topic), jsonTextOf(message)]
    await commands.run(PUBLISH, [keys.counter(topic)], args)
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
    const { keys, timeoutMs } = this.#options
    const client = await within(timeoutMs, (this.#connecting ??= this.#connect()))
    await within(timeoutMs, client.subscribe(keys.channel(name), topic.receive))
    topic.seen ??= await this.#count(name)
  }

  async #leave(name: string, topic: Topic): Promise<void> {
    try {
      const client = await this.#connecting
      await client?.unsubscribe(this.#options.keys.channel(name), topic.receive)
    } catch {
      // The connection is gone, and the subscription with it; nobody listens any more in any case.
    }
  }

  /** One connection for all topics. A first attempt that fails is over; a later break is healed by the client. */
  async #connect(): Promise<RedisSubscriber> {
    const client = await this.#options.subscriber()
    let hasConnected = false
    // Without a listener it would end the process. What was lost shows in the numbers.
    client.on('error', () => {})
    client.on('ready', () => {
      if (hasConnected) void this.#lookForGaps()
      hasConnected = true
    })
    try {
      await within(this.#options.timeoutMs, client.connect())
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
    const { commands, keys } = this.#options
    const reply = await commands.send(['GET', keys.counter(name)])
    return reply === null ? 0 : numberFrom(reply)
  }

  #tell(topic: Topic, call: (listener: Listener) => void): void {
    for (const listener of new Set(topic.listeners)) {
      try {
        call(listener)
      } catch (error) {
        this.#options.onError(error)
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

function destroy(client: RedisSubscriber): void {
  try {
    client.destroy()
  } catch {
    // It has ended by itself.
  }
}

async function within<Result>(timeoutMs: number, work: Promise<Result>): Promise<Result> {
  let undo = noUndo
  const expired = new Promise<never>((_resolve, reject) => {
    const message = `Redis did not take a subscription within ${timeoutMs} ms`
    undo = afterAwake(timeoutMs, () => reject(new GatewayError('UNAVAILABLE', message)))
  })
  try {
    return await Promise.race([work, expired])
  } catch (cause) {
    if (GatewayError.is(cause)) throw cause
    throw new GatewayError('UNAVAILABLE', 'Redis cannot be subscribed to now', { cause })
  } finally {
    undo()
  }
}
