import { hash } from 'node:crypto'
import { isRecord } from '@x/internal'
import { toJsonText } from './gateway-store.ts'
import type {
  AppendOptions,
  EventLogs,
  FoundLog,
  LoggedEvent,
  LogHeader,
  LogLimits,
  LogListener,
} from './gateway-store.ts'

/** Storage of the event logs of one process. Numbers of events grow over all logs, also after a restart. */
export interface LogRows {
  /** Appends an event, and drops expired events and those above the limit. Creates the log if it does not exist. */
  append(found: FoundLog, row: LogRow, limits: LogLimits): void
  find(tag: string, number: number): FoundLog | undefined
  after(tag: string, number: number): Iterable<LogRow>
  delete(tag: string): void
  /** Returns the highest number so far. */
  lastNumber(): number
}

export interface LogRow {
  readonly number: number
  readonly text: string
  readonly isLast: boolean
}

/** Event logs that only this process writes and reads. Tails are called by the append itself. */
export class LocalLogs implements EventLogs {
  readonly #rows: LogRows
  readonly #now: () => number
  readonly #onError: (error: unknown) => void
  readonly #tails = new Map<string, Set<Tail>>()
  #lastNumber: number

  constructor(rows: LogRows, now: () => number, onError: (error: unknown) => void) {
    this.#rows = rows
    this.#now = now
    this.#onError = onError
    this.#lastNumber = rows.lastNumber()
  }

  async open(log: string, header: LogHeader, limits: LogLimits): Promise<string> {
    const tag = toLogTag(log)
    const number = this.#nextNumber()
    this.#rows.delete(tag)
    this.#rows.append({ log, header }, { number, text: 'null', isLast: false }, limits)
    return formatEventId(tag, toPlace(number))
  }

  async append(
    log: string,
    event: unknown,
    { limits, isLast, header }: AppendOptions,
  ): Promise<string> {
    const text = toJsonText(event)
    const tag = toLogTag(log)
    const row = { number: this.#nextNumber(), text, isLast }
    this.#rows.append({ log, header }, row, limits)
    const tails = [...(this.#tails.get(tag) ?? [])]
    // All tails get the event before a listener can append the next one.
    for (const tail of tails) tail.waiting.push(row)
    for (const tail of tails) this.#deliver(tail)
    return formatEventId(tag, toPlace(row.number))
  }

  async find(eventId: string): Promise<FoundLog | undefined> {
    const at = parseEventId(eventId)
    return at && this.#rows.find(at.tag, Number(at.place))
  }

  async read(log: string, afterId: string): Promise<readonly LoggedEvent[] | undefined> {
    return this.#read(log, afterId)?.map((row) => toEvent(toLogTag(log), row))
  }

  async tail(log: string, afterId: string, listener: LogListener): Promise<() => void> {
    const tag = toLogTag(log)
    const tail: Tail = { tag, listener, waiting: [], isDelivering: false, isEnded: false }
    const tails = this.#tails.get(tag) ?? new Set()
    this.#tails.set(tag, tails.add(tail))
    if (afterId !== 'now') {
      const rows = this.#read(log, afterId)
      if (!rows) this.#call(listener.onGap)
      tail.waiting.push(...(rows ?? this.#rows.after(tag, 0)))
      this.#deliver(tail)
    }
    return () => {
      tail.isEnded = true
      tails.delete(tail)
      if (tails.size === 0 && this.#tails.get(tag) === tails) this.#tails.delete(tag)
    }
  }

  async delete(log: string): Promise<void> {
    this.#rows.delete(toLogTag(log))
  }

  /** Ends all tails. */
  close(): void {
    for (const tails of this.#tails.values()) for (const tail of tails) tail.isEnded = true
    this.#tails.clear()
  }

  #nextNumber(): number {
    this.#lastNumber = Math.max(Math.floor(this.#now() * 1000), this.#lastNumber + 1)
    return this.#lastNumber
  }

  #read(log: string, afterId: string): LogRow[] | undefined {
    const at = parseEventId(afterId)
    if (!at || this.#rows.find(at.tag, Number(at.place))?.log !== log) return undefined
    return [...this.#rows.after(at.tag, Number(at.place))]
  }

  #deliver(tail: Tail): void {
    if (tail.isDelivering) return // called by the listener, which appended an event
    tail.isDelivering = true
    for (let row; !tail.isEnded && (row = tail.waiting.shift());) {
      const event = toEvent(tail.tag, row)
      this.#call(() => tail.listener.onEvent(event))
    }
    tail.isDelivering = false
  }

  #call(listener: () => void): void {
    try {
      listener()
    } catch (error) {
      this.#onError(error)
    }
  }
}

interface Tail {
  readonly tag: string
  readonly listener: LogListener
  readonly waiting: LogRow[]
  isDelivering: boolean
  isEnded: boolean
}

/**
 * Returns the id of an event: a tag that stands for the log, so that clients do not learn its name, and the place of the
 * event in the log. Places of one log have one length, so their ids sort as the events do.
 *
 * @param place 16 digits, or 16 digits, a hyphen and 12 digits
 */
export function formatEventId(tag: string, place: string): string {
  return `${tag}.${place}`
}

/** Parses an id that a client sent. `undefined` for other texts. */
export function parseEventId(text: string): EventId | undefined {
  const [, tag, place] = /^([0-9a-f]{32})\.(\d{16}(?:-\d{12})?)$/.exec(text) ?? []
  return tag !== undefined && place !== undefined ? { tag, place } : undefined
}

/** Returns the place of an event that has a number. */
function toPlace(number: number): string {
  return String(number).padStart(16, '0')
}

export interface EventId {
  readonly tag: string
  readonly place: string
}

/** Returns the tag of a log, a hash of its name. A log with a secret name has a random part in it. */
export function toLogTag(log: string): string {
  return hash('sha256', log).slice(0, 32)
}

/** Parses the stored name and header of a log. `undefined`: another program wrote them. */
export function parseFoundLog(text: string): FoundLog | undefined {
  const found: unknown = JSON.parse(text)
  if (!isRecord(found) || typeof found['log'] !== 'string') return undefined
  const { log, header } = found
  if (!isRecord(header)) return { log, header: undefined }
  const { session, owner, requestId } = header
  if (typeof session !== 'string' || typeof owner !== 'string' || !isRequestId(requestId)) {
    return undefined
  }
  return { log, header: { session, owner, requestId } }
}

function isRequestId(value: unknown): value is string | number {
  return typeof value === 'string' || typeof value === 'number'
}

function toEvent(tag: string, { number, text, isLast }: LogRow): LoggedEvent {
  const event: unknown = JSON.parse(text)
  return { id: formatEventId(tag, toPlace(number)), event, isLast }
}
