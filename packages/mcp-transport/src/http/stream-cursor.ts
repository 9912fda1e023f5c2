/** How far a stream was read, and how long the server wants us to wait before we ask again. */
export interface StreamCursor {
  lastEventId?: string | undefined
  retryMs?: number | undefined
}

const MAX_LENGTH = 4096
// oxlint-disable-next-line no-control-regex -- it is about them
const CONTROL = /[\u0000-\u001F\u007F]/

/**
 * An event id as a cursor. An empty one resets the cursor (WHATWG HTML, section 9.2); so does one that
 * no header could carry, because an older one would bring what was read already.
 */
export function cursorFrom(eventId: string): string | undefined {
  const isUsable = eventId !== '' && eventId.length <= MAX_LENGTH && !CONTROL.test(eventId)
  return isUsable ? eventId : undefined
}

/** The headers of a request that goes on at the cursor: event ids go over the wire as UTF-8. */
export function cursorHeaders({ lastEventId }: StreamCursor): readonly string[] {
  const cursor = cursorFrom(lastEventId ?? '')
  if (cursor === undefined) return []
  return ['last-event-id', Buffer.from(cursor, 'utf8').toString('latin1')]
}
