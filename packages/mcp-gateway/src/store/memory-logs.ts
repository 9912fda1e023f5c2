import { eventIdFrom, eventIdOf, placeOf } from './event-id.ts'
import type { LoggedEvent, LogLimits, Logs } from './gateway-store.ts'
import { jsonTextOf } from './json-text.ts'
import { randomId } from './random-id.ts'

/** Streams of events of this process. */
export class MemoryLogs implements Logs {
  readonly #now: () => number
  readonly #streams = new Map<string, Log>()
  readonly #names = new Map<string, string>()

  constructor(now: () => number) {
    this.#now = now
  }

  async append(stream: string, event: unknown, limits: LogLimits): Promise<string> {
    const text = jsonTextOf(event)
    const log = this.#streams.get(stream) ?? this.#start(stream)
    const id = eventIdOf(log.tag, placeOf(++log.count))
    log.events.push({ id, text, endsAt: this.#now() + limits.ttlMs })
    const excess = log.events.length - limits.maxEvents
    if (excess > 0) log.events.splice(0, excess)
    this.#forgetEnded(log)
    return id
  }

  async after(stream: string, eventId: string): Promise<readonly LoggedEvent[] | undefined> {
    const log = this.#streams.get(stream)
    if (!log) return undefined
    this.#forgetEnded(log)
    const at = log.events.findIndex(({ id }) => id === eventId)
    if (at < 0) return undefined
    return log.events.slice(at + 1).map(({ id, text }) => {
      const event: unknown = JSON.parse(text)
      return { id, event }
    })
  }

  async streamOf(eventId: string): Promise<string | undefined> {
    const name = this.#names.get(eventIdFrom(eventId)?.tag ?? '')
    const log = name === undefined ? undefined : this.#streams.get(name)
    if (!log) return undefined
    this.#forgetEnded(log)
    return log.events.some(({ id }) => id === eventId) ? name : undefined
  }

  async delete(stream: string): Promise<void> {
    this.#names.delete(this.#streams.get(stream)?.tag ?? '')
    this.#streams.delete(stream)
  }

  /** Forgets streams whose last event has ended. */
  sweep(): void {
    const now = this.#now()
    for (const [stream, { tag, events }] of this.#streams) {
      if ((events.at(-1)?.endsAt ?? 0) > now) continue
      this.#streams.delete(stream)
      this.#names.delete(tag)
    }
  }

  #start(stream: string): Log {
    const log: Log = { tag: randomId(), count: 0, events: [] }
    this.#streams.set(stream, log)
    this.#names.set(log.tag, stream)
    return log
  }

  #forgetEnded({ events }: Log): void {
    const now = this.#now()
    const live = events.findIndex(({ endsAt }) => endsAt > now)
    if (live !== 0) events.splice(0, live < 0 ? events.length : live)
  }
}

interface Log {
  readonly tag: string
  count: number
  readonly events: { readonly id: string; readonly text: string; readonly endsAt: number }[]
}
