import { parseList, parseText } from '@x/internal/redis'
import type { LogLimits, Logs, StreamEvent } from '@x/mcp-gateway'
import { formatEventId, parseEventId, randomId, toJsonText } from '@x/mcp-gateway/adapter'
import { parseJson } from './redis-commands.ts'
import type { RedisCommands } from './redis-commands.ts'
import { AFTER, APPEND } from './scripts.ts'

/** Logs as streams of Redis, which go with the end of their last event. */
export class RedisStreams implements Logs {
  readonly #commands: RedisCommands

  constructor(commands: RedisCommands) {
    this.#commands = commands
  }

  async append(stream: string, event: unknown, limits: LogLimits): Promise<string> {
    const tag = randomId()
    const keys = [
      this.#commands.keys.stream(stream),
      this.#commands.keys.tagOf(stream),
      this.#commands.keys.streamOfTag(tag),
    ]
    const ttl = String(Math.max(1, Math.round(limits.ttlMs)))
    const args = [toJsonText(event), tag, stream, String(limits.maxEvents), ttl]
    const [used, place] = parseList(await this.#commands.run(APPEND, keys, args)).map(parseText)
    return formatEventId(used ?? '', paddedFrom(place ?? ''))
  }

  async after(stream: string, eventId: string): Promise<readonly StreamEvent[] | undefined> {
    const at = parseEventId(eventId)
    if (!at || (await this.#streamOfTag(at.tag)) !== stream) return undefined
    const keys = [this.#commands.keys.stream(stream)]
    const reply = await this.#commands.run(AFTER, keys, [bareFrom(at.place)])
    if (reply === null) return undefined
    return parseList(reply).map((entry) => {
      const [place, text] = parseList(entry)
      return { id: formatEventId(at.tag, paddedFrom(parseText(place))), event: parseJson(text) }
    })
  }

  async streamOf(eventId: string): Promise<string | undefined> {
    const at = parseEventId(eventId)
    const stream = at && (await this.#streamOfTag(at.tag))
    if (!at || stream === undefined) return undefined
    const args = [bareFrom(at.place)]
    const reply = await this.#commands.run(AFTER, [this.#commands.keys.stream(stream)], args)
    return reply === null ? undefined : stream
  }

  async delete(stream: string): Promise<void> {
    const keys = this.#commands.keys
    const tag = await this.#commands.send(['GET', keys.tagOf(stream)])
    const tags = tag === null ? [] : [keys.streamOfTag(parseText(tag))]
    await this.#commands.send(['DEL', keys.stream(stream), keys.tagOf(stream), ...tags])
  }

  async #streamOfTag(tag: string): Promise<string | undefined> {
    const name = await this.#commands.send(['GET', this.#commands.keys.streamOfTag(tag)])
    return name === null ? undefined : parseText(name)
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
