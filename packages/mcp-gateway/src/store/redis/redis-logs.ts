import { eventIdFrom, eventIdOf } from '../event-id.ts'
import type { LogLimits, Logs, StreamEvent } from '../gateway-store.ts'
import { jsonTextOf } from '../json-text.ts'
import { randomId } from '../random-id.ts'
import type { RedisCommands } from './redis-commands.ts'
import type { RedisKeys } from './redis-keys.ts'
import { jsonFrom, listFrom, textFrom } from './redis-reply.ts'
import { AFTER, APPEND } from './redis-scripts.ts'

/** Logs as streams of Redis, which go with the end of their last event. */
export class RedisLogs implements Logs {
  readonly #commands: RedisCommands
  readonly #keys: RedisKeys

  constructor(commands: RedisCommands, keys: RedisKeys) {
    this.#commands = commands
    this.#keys = keys
  }

  async append(stream: string, event: unknown, limits: LogLimits): Promise<string> {
    const tag = randomId()
    const keys = [this.#keys.stream(stream), this.#keys.tagOf(stream), this.#keys.streamOfTag(tag)]
    const ttl = String(Math.max(1, Math.round(limits.ttlMs)))
    const args = [jsonTextOf(event), tag, stream, String(limits.maxEvents), ttl]
    const [used, place] = listFrom(await this.#commands.run(APPEND, keys, args)).map(textFrom)
    return eventIdOf(used ?? '', paddedFrom(place ?? ''))
  }

  async after(stream: string, eventId: string): Promise<readonly StreamEvent[] | undefined> {
    const at = eventIdFrom(eventId)
    if (!at || (await this.#streamOfTag(at.tag)) !== stream) return undefined
    const keys = [this.#keys.stream(stream)]
    const reply = await this.#commands.run(AFTER, keys, [bareFrom(at.place)])
    if (reply === null) return undefined
    return listFrom(reply).map((entry) => {
      const [place, text] = listFrom(entry)
      return { id: eventIdOf(at.tag, paddedFrom(textFrom(place))), event: jsonFrom(text) }
    })
  }

  async streamOf(eventId: string): Promise<string | undefined> {
    const at = eventIdFrom(eventId)
    const stream = at && (await this.#streamOfTag(at.tag))
    if (!at || stream === undefined) return undefined
    const args = [bareFrom(at.place)]
    const reply = await this.#commands.run(AFTER, [this.#keys.stream(stream)], args)
    return reply === null ? undefined : stream
  }

  async delete(stream: string): Promise<void> {
    const keys = this.#keys
    const tag = await this.#commands.send(['GET', keys.tagOf(stream)])
    const tags = tag === null ? [] : [keys.streamOfTag(textFrom(tag))]
    await this.#commands.send(['DEL', keys.stream(stream), keys.tagOf(stream), ...tags])
  }

  async #streamOfTag(tag: string): Promise<string | undefined> {
    const name = await this.#commands.send(['GET', this.#keys.streamOfTag(tag)])
    return name === null ? undefined : textFrom(name)
  }
}

/** `1700000000000-3` so that such texts sort as they follow each other. */
function paddedFrom(place: string): string {
  const [time = '', number = ''] = place.split('-')
  return `${time.padStart(16, '0')}-${number.padStart(12, '0')}`
}

/** Of a place with another form, which no event has, something that none has either. */
function bareFrom(place: string): string {
  const [time, number = 0] = place.split('-').map(Number)
  return `${time}-${number}`
}
