import { randomUUID } from 'node:crypto'
import type { EventStore, JSONRPCMessage } from '@modelcontextprotocol/server'

/** Keeps every event in a map and forgets none: as small as a store can be. */
export class MemoryEventStore implements EventStore {
  readonly #events = new Map<
    string,
    { readonly stream: string; readonly message: JSONRPCMessage }
  >()

  async storeEvent(stream: string, message: JSONRPCMessage): Promise<string> {
    const id = `${stream}_${randomUUID()}`
    this.#events.set(id, { stream, message })
    return id
  }

  async replayEventsAfter(
    lastEventId: string,
    { send }: { send: (eventId: string, message: JSONRPCMessage) => Promise<void> },
  ): Promise<string> {
    const stream = this.#events.get(lastEventId)?.stream
    if (stream === undefined) throw new Error('The event is not known')
    let isAfter = false
    for (const [id, event] of this.#events) {
      if (isAfter && event.stream === stream) await send(id, event.message)
      isAfter ||= id === lastEventId
    }
    return stream
  }
}
