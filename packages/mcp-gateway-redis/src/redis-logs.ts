import { parseList, parseText } from '@x/internal/redis'
import type {
  AppendOptions,
  EventLogs,
  FoundLog,
  LoggedEvent,
  LogHeader,
  LogLimits,
  LogListener,
  PutEvent,
} from '@x/mcp-gateway'
import {
  formatEventId,
  parseEventId,
  parseFoundLog,
  toJsonText,
  toLogTag,
} from '@x/mcp-gateway/adapter'
import { wholeMs, type RedisCommands } from './redis-commands.ts'
import { parseEntry, toEntryId, toPlace, type RedisTails } from './redis-tails.ts'
import { APPEND_EVENT, DELETE_LOG, FIND_EVENT } from './scripts.ts'

/**
 * Event logs as Redis streams. Each entry names the entry before it, so that a reader notices entries that were
 * dropped. Name and header of a log are a key of their own, because the first entries of a stream are dropped first.
 */
export class RedisLogs implements EventLogs {
  readonly #commands: RedisCommands
  readonly #tails: RedisTails

  constructor(commands: RedisCommands, tails: RedisTails) {
    this.#commands = commands
    this.#tails = tails
  }

  async open(log: string, header: LogHeader, limits: LogLimits): Promise<string> {
    return this.#append(log, { text: 'null', isLast: false, limits, header, isNew: true })
  }

  async append(log: string, event: unknown, options: AppendOptions): Promise<string> {
    return this.#append(log, { ...options, text: toJsonText(event) })
  }

  async find(eventId: string): Promise<FoundLog | undefined> {
    const at = parseEventId(eventId)
    if (!at) return undefined
    const reply = await this.#commands.run(FIND_EVENT, this.#keysOf(at.tag), [toEntryId(at.place)])
    return reply === null ? undefined : parseFoundLog(parseText(reply))
  }

  async read(log: string, afterId: string): Promise<readonly LoggedEvent[] | undefined> {
    const at = parseEventId(afterId)
    if (at?.tag !== toLogTag(log)) return undefined
    const from = toEntryId(at.place)
    const reply = await this.#commands.send([
      'XRANGE',
      this.#commands.key('events', at.tag),
      from,
      '+',
    ])
    const [first, ...rest] = parseList(reply).map((entry) => parseEntry(at.tag, entry))
    return first?.event.id === afterId ? rest.map(({ event }) => event) : undefined
  }

  tail(log: string, afterId: string, listener: LogListener): Promise<() => void> {
    const tag = toLogTag(log)
    const at = parseEventId(afterId)
    const place = at?.tag === tag ? at.place : undefined
    return this.#tails.add(tag, afterId === 'now' ? afterId : place, listener)
  }

  async delete(log: string): Promise<void> {
    await this.#commands.run(DELETE_LOG, this.#keysOf(toLogTag(log)), [])
  }

  /** Returns the last keys and arguments of a script that writes a record and then appends this event. */
  toAppend({ log, event, limits }: PutEvent): readonly [keys: string[], args: string[]] {
    return this.#scriptInput(log, { text: toJsonText(event), limits, isLast: false })
  }

  async #append(log: string, event: NewEvent): Promise<string> {
    const reply = await this.#commands.run(APPEND_EVENT, ...this.#scriptInput(log, event))
    return formatEventId(toLogTag(log), toPlace(parseText(reply)))
  }

  #keysOf(tag: string): string[] {
    return [this.#commands.key('events', tag), this.#commands.key('head', tag)]
  }

  #scriptInput(log: string, event: NewEvent): [keys: string[], args: string[]] {
    const { header, text, isLast, limits, isNew = false } = event
    const ttl = wholeMs(limits.ttlMs)
    const head = JSON.stringify({ log, header })
    const keys = this.#keysOf(toLogTag(log))
    return [keys, [text, flag(isLast), String(limits.maxEvents), ttl, head, flag(isNew)]]
  }
}

interface NewEvent extends AppendOptions {
  readonly text: string
  /** Replaces a log of the same name. */
  readonly isNew?: boolean
}

function flag(value: boolean): string {
  return value ? '1' : '0'
}
