import {
  parseJSONRPCMessage,
  type EventStore,
  type JSONRPCMessage,
  type RequestId,
} from '@modelcontextprotocol/server'

import { isRecord } from '@x/internal'
import type { LogLimits, Logs, StreamEvent } from '../../store/gateway-store.ts'
import {
  isForListening,
  streamNameOf,
  streamPlaceFrom,
  type StreamPlace,
} from '../replicas/stream-name.ts'
import { StreamReplays } from './stream-replays.ts'
import { isWithdrawn } from './withdrawn-answer.ts'
import { WrittenStreams } from './written-streams.ts'

export interface SessionEventsOptions {
  readonly logs: Logs
  /** Names this session among all, without telling its id. */
  readonly session: string
  readonly limits: LogLimits
  /** An event of this stream is about to be kept; `answered`: it is the answer to this request. */
  readonly onEvent: (stream: string, answered: RequestId | undefined) => void
  /** An event was kept. @default nobody wants to know */
  readonly onKept?: (() => void) | undefined
  /** The event could not be kept: the stream goes on, but nobody can come back to it. */
  readonly onLost: (error: unknown) => void
  /** Milliseconds since 1970. */
  readonly now: () => number
  /** Where the session has processes besides this one. @default it has none */
  readonly shared?: SharedEvents | undefined
}

/** What other processes need to know of streams that are written here. */
interface SharedEvents {
  /** Names this process. */
  readonly replica: string
  /** Requests that the stream which begins now answers. */
  readonly requestIds: () => readonly RequestId[]
  /** Whether all of them are answered by now. */
  readonly isAnswered: (stream: string) => boolean
  readonly onKept: (stream: string, event: KeptEvent) => void
}

export interface KeptEvent {
  readonly id: string
  readonly message: JSONRPCMessage
  /** With it the stream is complete. */
  readonly isLast: boolean
}

/**
 * What a session was sent, for a client that lost a stream and comes back with `Last-Event-ID` (specification
 * 2025-11-25, "Resumability and redelivery"). An event of another session is not known here.
 */
export class SessionEvents implements EventStore {
  readonly #options: SessionEventsOptions
  readonly #prefix: string
  readonly #written: WrittenStreams
  readonly #replays = new StreamReplays()
  #isPaused = false
  #isClosed = false

  // `getStreamIdForEventId` is left out: with it the SDK refuses whoever comes back before the loss was noticed.
  constructor(options: SessionEventsOptions) {
    const { limits, now, session } = options
    this.#options = options
    this.#prefix = `session-events:${session}:`
    this.#written = new WrittenStreams({ ttlMs: limits.ttlMs, now })
  }

  /**
   * Without an id in its event a client knows that it cannot come back to it.
   *
   * @throws TypeError for what JSON has no text for
   */
  async storeEvent(stream: string, message: JSONRPCMessage): Promise<string> {
    const name = this.#written.goOn(stream) ?? this.#begin(stream)
    this.#options.onEvent(stream, answeredBy(message))
    if (this.#isPaused || this.#isClosed || this.isBroken(stream)) return ''
    const { logs, limits, onKept, onLost, shared } = this.#options
    const isLast = answeredBy(message) !== undefined && (shared?.isAnswered(stream) ?? false)
    try {
      const id = await logs.append(name, message, limits)
      onKept?.()
      shared?.onKept(stream, { id, message, isLast })
      const replay = this.#replays.endOf(stream)
      if (replay) await replay
      return id
    } catch (error) {
      JSON.stringify(message) // throws if it was this that could not be kept
      this.#written.break(stream)
      onLost(error)
      return ''
    }
  }

  /** Keeps nothing meanwhile: what was said before is said again. */
  async pausedFor(work: () => Promise<void>): Promise<void> {
    this.#isPaused = true
    try {
      await work()
    } finally {
      this.#isPaused = false
    }
  }

  /** The stream of an event of this session. */
  async placeOf(eventId: string): Promise<StreamPlace | undefined> {
    const name = await this.#options.logs.streamOf(eventId)
    if (!name?.startsWith(this.#prefix)) return undefined
    const place = streamPlaceFrom(name.slice(this.#prefix.length))
    return this.isBroken(place.stream) ? undefined : place
  }

  /** Whether it was written here, and somebody may come back to it. */
  wrote(stream: string): boolean {
    return this.#written.has(stream)
  }

  /** Whether an event of it could not be kept. */
  isBroken(stream: string): boolean {
    return this.#written.isBroken(stream)
  }

  /** Of a stream that another process writes. */
  after(place: StreamPlace, eventId: string): Promise<readonly StreamEvent[] | undefined> {
    return this.#options.logs.after(this.#prefix + streamNameOf(place), eventId)
  }

  /** Whether a stream that has ended said nothing more after this event. */
  async isOverAfter(place: StreamPlace, eventId: string): Promise<boolean> {
    if (isForListening(place)) return false
    return (await this.after(place, eventId))?.every(({ event }) => isSilent(event)) ?? false
  }

  /** Ends a stream whose process has died. @returns the id of the event */
  append(place: StreamPlace, message: JSONRPCMessage): Promise<string> {
    const { logs, limits } = this.#options
    return logs.append(this.#prefix + streamNameOf(place), message, limits)
  }

  async replayEventsAfter(
    lastEventId: string,
    { send }: { send: (eventId: string, message: JSONRPCMessage) => Promise<void> },
  ): Promise<string> {
    const place = await this.placeOf(lastEventId)
    // Forgotten since it was looked up: an empty stream brings its client back, to be told so.
    if (!place) return ''
    const end = this.#replays.begin(place.stream)
    try {
      const events = await this.after(place, lastEventId)
      for (const { id, event } of events ?? []) {
        if (!isSilent(event)) await send(id, parseJSONRPCMessage(event))
      }
      return place.stream
    } finally {
      end()
    }
  }

  /** Nobody will come back to it. */
  async forget(stream: string): Promise<void> {
    const name = this.#written.nameOf(stream)
    if (name === undefined) return
    await this.#options.logs.delete(name)
    this.#written.forget(stream)
  }

  /** Nobody will come back to any, and none is kept any more. */
  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.all(this.#written.all.map((stream) => this.forget(stream)))
  }

  #begin(stream: string): string {
    const { shared } = this.#options
    const { replica, requestIds = () => [] } = shared ?? {}
    const name = this.#prefix + streamNameOf({ stream, replica, requestIds: requestIds() })
    if (!this.#isPaused && !this.#isClosed) this.#written.begin(stream, name)
    return name
  }
}

/** Kept, and sent to nobody who comes back. The SDK keeps an empty message for the event that only has an id. */
export function isSilent(event: unknown): boolean {
  return (isRecord(event) && Object.keys(event).length === 0) || isWithdrawn(event)
}

function answeredBy(message: JSONRPCMessage): RequestId | undefined {
  return 'method' in message ? undefined : message.id
}
