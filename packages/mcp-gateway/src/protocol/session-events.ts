import {
  isJSONRPCErrorResponse,
  isJSONRPCResultResponse,
  parseJSONRPCMessage,
  type EventStore,
  type JSONRPCMessage,
  type RequestId,
} from '@modelcontextprotocol/server'

import type { LogLimits, Logs } from '../store/gateway-store.ts'

export interface SessionEventsOptions {
  readonly logs: Logs
  /** Names this session among all, without telling its id. */
  readonly session: string
  readonly limits: LogLimits
  /** An event of this stream was kept; `answered`: it is the answer to this request. */
  readonly onEvent: (stream: string, answered: RequestId | undefined) => void
}

/**
 * What a session was sent, for a client that lost a stream and comes back with `Last-Event-ID` (specification
 * 2025-11-25, "Resumability and redelivery"). An event of another session is not known here.
 */
export class SessionEvents implements EventStore {
  readonly #options: SessionEventsOptions
  readonly #prefix: string
  readonly #streams = new Set<string>()

  // `getStreamIdForEventId` is left out: with it the SDK refuses whoever comes back before the loss was noticed.
  constructor(options: SessionEventsOptions) {
    this.#options = options
    this.#prefix = `session-events:${options.session}:`
  }

  async storeEvent(stream: string, message: JSONRPCMessage): Promise<string> {
    const { logs, limits, onEvent } = this.#options
    this.#streams.add(stream)
    onEvent(stream, answeredBy(message))
    return logs.append(this.#prefix + stream, message, limits)
  }

  /** The stream of an event of this session. */
  async streamOf(eventId: string): Promise<string | undefined> {
    const stream = await this.#options.logs.streamOf(eventId)
    return stream?.startsWith(this.#prefix) ? stream.slice(this.#prefix.length) : undefined
  }

  async replayEventsAfter(
    lastEventId: string,
    { send }: { send: (eventId: string, message: JSONRPCMessage) => Promise<void> },
  ): Promise<string> {
    const stream = await this.streamOf(lastEventId)
    const events = stream && (await this.#options.logs.after(this.#prefix + stream, lastEventId))
    if (!stream || !events) throw new Error('The event is not known any more')
    for (const { id, event } of events) {
      if (!isPriming(event)) await send(id, parseJSONRPCMessage(event))
    }
    return stream
  }

  /** Nobody will come back to it. */
  async forget(stream: string): Promise<void> {
    if (this.#streams.delete(stream)) await this.#options.logs.delete(this.#prefix + stream)
  }

  /** Nobody will come back to any. */
  async close(): Promise<void> {
    await Promise.all([...this.#streams].map((stream) => this.forget(stream)))
  }
}

/** The SDK keeps an empty message for the event that only has an id. */
function isPriming(event: unknown): boolean {
  return typeof event === 'object' && event !== null && Object.keys(event).length === 0
}

function answeredBy(message: JSONRPCMessage): RequestId | undefined {
  if (isJSONRPCResultResponse(message) || isJSONRPCErrorResponse(message)) return message.id
  return undefined
}
