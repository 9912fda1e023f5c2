import { parseEventId, formatEventId, toPlace } from './local-logs.ts'
import type { LogLimits, Logs, StreamEvent } from './gateway-store.ts'
import { toJsonText } from './gateway-store.ts'
import { randomId } from '../internal/random-hex.ts'

/** Characters of events that are kept; beyond it the stream with the most is forgotten. */
const MAX_CHARS = 67_108_864

/** Streams of events of this process. */
export class MemoryLogs implements Logs {
  readonly #now: () => number
  readonly #maxChars: number
  #chars = 0
  readonly #streams = new Map<string, Log>()
  readonly #names = new Map<string, string>()

  constructor(now: () => number, maxChars: number = MAX_CHARS) {
    this.#now = now
    this.#maxChars = maxChars
  }

  async append(stream: string, event: unknown, limits: LogLimits): Promise<string> {
    const text = toJsonText(event)
    const log = this.#streams.get(stream) ?? this.#start(stream)
    const id = formatEventId(log.tag, toPlace(++log.count))
    log.events.push({ id, text, endsAt: this.#now() + limits.ttlMs })
    log.chars += text.length
    this.#chars += text.length
    const excess = log.events.length - limits.maxEvents
    if (excess > 0) this.#drop(log, excess)
    this.#forgetEnded(log)
    while (this.#chars > this.#maxChars) this.#forgetLargest()
    return id
  }

  async after(stream: string, eventId: string): Promise<readonly StreamEvent[] | undefined> {
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
    const name = this.#names.get(parseEventId(eventId)?.tag ?? '')
    const log = name === undefined ? undefined : this.#streams.get(name)
    if (!log) return undefined
    this.#forgetEnded(log)
    return log.events.some(({ id }) => id === eventId) ? name : undefined
  }

  async delete(stream: string): Promise<void> {
    const log = this.#streams.get(stream)
    if (!log) return
    this.#chars -= log.chars
    this.#names.delete(log.tag)
    this.#streams.delete(stream)
  }

  /** Forgets streams whose last event has ended. */
  sweep(): void {
    const now = this.#now()
    for (const [stream, { events }] of this.#streams) {
      if ((events.at(-1)?.endsAt ?? 0) <= now) void this.delete(stream)
    }
  }

  #forgetLargest(): void {
    let largest = ''
    let most = 0
    for (const [stream, { chars }] of this.#streams) {
      if (chars <= most) continue
      largest = stream
      most = chars
    }
    void this.delete(largest)
  }

  #drop(log: Log, count: number): void {
    for (const { text } of log.events.splice(0, count)) {
      log.chars -= text.length
      this.#chars -= text.length
    }
  }

  #start(stream: string): Log {
    const log: Log = { tag: randomId(), count: 0, chars: 0, events: [] }
    this.#streams.set(stream, log)
    this.#names.set(log.tag, stream)
    return log
  }

  #forgetEnded(log: Log): void {
    const now = this.#now()
    const live = log.events.findIndex(({ endsAt }) => endsAt > now)
    if (live !== 0) this.#drop(log, live < 0 ? log.events.length : live)
  }
}

interface Log {
  readonly tag: string
  count: number
  chars: number
  readonly events: { readonly id: string; readonly text: string; readonly endsAt: number }[]
}
