import { setTimeout as sleep } from 'node:timers/promises'
import { within } from '@x/internal'

import { parseList, parseText } from '@x/internal/redis'
import { GatewayError, type LoggedEvent, type LogListener } from '@x/mcp-gateway'
import { formatEventId, randomId } from '@x/mcp-gateway/adapter'
import { destroy, parseJson } from './redis-commands.ts'
import type { RedisCommand, RedisCommands, RedisConnection } from './redis-commands.ts'
import { WAKE } from './scripts.ts'

/** Time after which Redis answers a read without events. Longer silence means a dead connection. Milliseconds. */
const BLOCK_MS = 2000
/** After a longer time without an answer, events may have expired unread: logs of changes and signals live 60 s. */
const STALE_MS = 10 * BLOCK_MS
const READ_ENTRIES = 200
const RETRY_MIN_MS = 100
const RETRY_MAX_MS = 5000
const BYTES = { 36: Buffer } as const

/**
 * All tails of a process over one connection, which waits in one blocking read of all their streams. When the set of
 * streams changes, an entry in a stream of the process ends the read: `CLIENT UNBLOCK` needs a permission that users
 * often do not have. The connection is closed while no log is tailed.
 */
export class RedisTails {
  readonly #commands: RedisCommands
  readonly #onError: (error: unknown) => void
  readonly #tails = new Map<string, Set<Tail>>()
  readonly #wakeKey: string
  readonly #closing = new AbortController()
  #isWoken = true
  #running: Promise<void> | undefined
  #current: RedisConnection | undefined

  constructor(commands: RedisCommands, onError: (error: unknown) => void) {
    this.#commands = commands
    this.#onError = onError
    this.#wakeKey = commands.key('wake', randomId())
  }

  /** @param after the place of an entry, `now`, or `undefined` for a place that no entry has */
  async add(tag: string, after: string | undefined, listener: LogListener): Promise<() => void> {
    const tail: Tail = { listener, place: after ?? BEGINNING, state: 'unknown' }
    if (after === undefined) this.#call(listener.onGap)
    await this.#settle(tag, tail, (command) => this.#commands.send(command)).catch(
      (error: unknown) => {
        // The loop finds the place of the tail when Redis is back.
        if (this.#closing.signal.aborted) throw error
      },
    )
    if (this.#closing.signal.aborted) throw new GatewayError('CLOSED', 'The store is closed')
    const tails = this.#tails.get(tag) ?? new Set()
    this.#tails.set(tag, tails.add(tail))
    this.#wake()
    return () => {
      tail.state = 'ended'
      tails.delete(tail)
      if (tails.size === 0 && this.#tails.get(tag) === tails) this.#tails.delete(tag)
    }
  }

  async close(): Promise<void> {
    this.#closing.abort()
    this.#tails.clear()
    if (this.#current) destroy(this.#current)
    await this.#running
  }

  /** Makes the loop look at the set of streams again. Does nothing if it has not read the set since the last call. */
  #wake(): void {
    if (!this.#running) {
      this.#running = this.#run()
      return
    }
    if (this.#isWoken) return
    this.#isWoken = true
    const lifetime = String(BLOCK_MS * 2)
    // If this fails, the read ends after BLOCK_MS.
    this.#commands.run(WAKE, [this.#wakeKey], [lifetime]).catch(() => {})
  }

  async #run(): Promise<void> {
    const { signal } = this.#closing
    let failures = 0
    const onConnected = (): void => void (failures = 0)
    while (this.#tails.size > 0 && !signal.aborted) {
      try {
        await this.#readWhileConnected(onConnected)
      } catch {
        // Tails continue at their places. After the reconnection, #settle finds out which entries were dropped.
        for (const tails of this.#tails.values()) for (const tail of tails) tail.state = 'unknown'
        const ms = Math.min(RETRY_MAX_MS, RETRY_MIN_MS * 2 ** failures++)
        await sleep(ms * (0.5 + Math.random() / 2), undefined, { signal }).catch(() => {})
      }
    }
    this.#running = undefined
  }

  async #readWhileConnected(onConnected: () => void): Promise<void> {
    const client = this.#commands.createReader()
    this.#current = client
    client.on('error', () => {}) // without a listener it would end the process; commands reject, too
    try {
      await this.#bounded(client.connect())
      onConnected()
      let woken = BEGINNING
      // By the clock of the machine, which goes on while the machine sleeps.
      let answeredAt = Date.now()
      while (this.#tails.size > 0 && !this.#closing.signal.aborted) {
        await this.#settleAll(client)
        const read = this.#nextRead(woken)
        const reply = await this.#bounded(client.sendCommand(read, { typeMapping: BYTES }))
        const before = answeredAt
        answeredAt = Date.now()
        if (answeredAt - before > STALE_MS) this.#missed()
        for (const [key, entries] of parseStreams(reply)) {
          if (key === this.#wakeKey) woken = placeOf(parseList(entries.at(-1))[0])
          else this.#deliver(key, entries)
        }
      }
    } finally {
      this.#current = undefined
      destroy(client)
    }
  }

  #nextRead(woken: string): RedisCommand {
    this.#isWoken = false
    const places = new Map<string, string>()
    for (const [tag, tails] of this.#tails) {
      for (const tail of tails) {
        if (tail.state === 'unknown') continue
        tail.state = 'reading'
        if (tail.place <= (places.get(tag) ?? tail.place)) places.set(tag, tail.place)
      }
    }
    const streams = [
      this.#wakeKey,
      ...[...places.keys()].map((tag) => this.#commands.key('events', tag)),
    ]
    const from = [woken, ...places.values()].map(toEntryId)
    const limits = ['COUNT', String(READ_ENTRIES), 'BLOCK', String(BLOCK_MS)]
    return ['XREAD', ...limits, 'STREAMS', ...streams, ...from]
  }

  async #settleAll(client: RedisConnection): Promise<void> {
    const send: Send = (command) =>
      this.#bounded(client.sendCommand(command, { typeMapping: BYTES }))
    const waiting = [...this.#tails].flatMap(([tag, tails]) =>
      [...tails].filter(({ state }) => state === 'unknown').map((tail) => ({ tag, tail })),
    )
    if (waiting.length === 0) return
    const settle = async ({ tag, tail }: (typeof waiting)[number]): Promise<void> => {
      const isLate = tail.place === 'now'
      await this.#settle(tag, tail, send)
      if (isLate) this.#call(tail.listener.onGap)
    }
    await Promise.all(waiting.map(settle))
  }

  /** Checks that the entry at the place of a tail still exists. If it was dropped, entries after it may be missing, too. */
  async #settle(tag: string, tail: Tail, send: Send): Promise<void> {
    const key = this.#commands.key('events', tag)
    if (tail.place === 'now') {
      const [last] = parseList(await send(['XREVRANGE', key, '+', '-', 'COUNT', '1']))
      tail.place = last === undefined ? ZERO : placeOf(parseList(last)[0])
    } else if (tail.place !== BEGINNING) {
      const id = toEntryId(tail.place)
      const found = parseList(await send(['XRANGE', key, id, id]))
      if (found.length === 0) {
        this.#call(tail.listener.onGap)
        tail.place = BEGINNING // no entry that is left was delivered
      }
    }
    if (tail.state === 'unknown') tail.state = 'settled'
  }

  /** The process was frozen: the entry before the next one does not tell whether others came before it. */
  #missed(): void {
    for (const tails of this.#tails.values()) {
      for (const { listener, state } of tails) if (state === 'reading') this.#call(listener.onGap)
    }
  }

  #deliver(key: string, entries: readonly unknown[]): void {
    const tag = key.slice(-TAG_LENGTH)
    for (const each of entries) {
      const { place, before, event } = parseEntry(tag, each)
      for (const tail of this.#tails.get(tag) ?? []) {
        if (tail.state !== 'reading' || place <= tail.place) continue
        // ZERO: the log began, or began again after all of its entries had expired.
        const isNext = before === tail.place || before === ZERO || tail.place === BEGINNING
        tail.place = place
        if (!isNext) this.#call(tail.listener.onGap)
        this.#call(() => tail.listener.onEvent(event))
      }
    }
  }

  #bounded<Result>(work: Promise<Result>): Promise<Result> {
    return within(work, BLOCK_MS + this.#commands.timeoutMs, () => {
      throw new GatewayError('UNAVAILABLE', 'Redis did not answer a read in time')
    })
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
  readonly listener: LogListener
  /** Place of the last entry that was delivered, `BEGINNING`, or `now` until the end of the log is known. */
  place: string
  /** `settled`: the place is known. `reading`: the current read begins at this place, or before it. */
  state: 'unknown' | 'settled' | 'reading' | 'ended'
}

type Send = (command: RedisCommand) => Promise<unknown>

/** Place before all entries. */
const BEGINNING = ''
/** Place at the end of an empty log. */
const ZERO = toPlace('0-0')
const TAG_LENGTH = 32

/** Converts the id of an entry to its place, as in event ids. Places sort in the order of the entries. */
export function toPlace(entryId: string): string {
  const [time = '', number = ''] = entryId.split('-')
  return `${time.padStart(16, '0')}-${number.padStart(12, '0')}`
}

function placeOf(entryId: unknown): string {
  return toPlace(parseText(entryId))
}

/** Returns the id of the entry at a place. For a place in another form, the id is one that no entry has. */
export function toEntryId(place: string): string {
  const [time, number = 0] = place.split('-').map(Number)
  return `${time}-${number}`
}

export function parseEntry(tag: string, entry: unknown): ParsedEntry {
  const [id, fields] = parseList(entry)
  const [, text, , last, , before] = parseList(fields)
  const place = placeOf(id)
  const event = {
    id: formatEventId(tag, place),
    event: parseJson(text),
    isLast: parseText(last) === '1',
  }
  return { place, before: placeOf(before), event }
}

export interface ParsedEntry {
  readonly place: string
  /** Place of the entry before it. */
  readonly before: string
  readonly event: LoggedEvent
}

/** Parses the reply of XREAD: a list of pairs in RESP2, a map in RESP3. */
function* parseStreams(reply: unknown): Generator<[key: string, entries: readonly unknown[]]> {
  if (typeof reply !== 'object' || reply === null) return
  if (Array.isArray(reply)) {
    for (const pair of reply) {
      const [key, entries] = parseList(pair)
      yield [toText(key), parseList(entries)]
    }
    return
  }
  const pairs = reply instanceof Map ? reply : Object.entries(reply)
  for (const [key, entries] of pairs) yield [toText(key), parseList(entries)]
}

function toText(key: unknown): string {
  return typeof key === 'string' ? key : parseText(key)
}
