/**
 * The id of an event: a random tag that stands for its stream, so that a client learns no name of ours, and
 * the event's place in it, of one length, so that ids of a stream sort as their events do.
 */
export function eventIdOf(tag: string, place: string): string {
  return `${tag}.${place}`
}

/** Ids come back from clients: whatever is none of ours is `undefined`. */
export function eventIdFrom(text: string): EventId | undefined {
  const [, tag, place] = /^([0-9a-f]{32})\.(\d{16}(?:-\d{12})?)$/.exec(text) ?? []
  return tag !== undefined && place !== undefined ? { tag, place } : undefined
}

/** A place that is a number. */
export function placeOf(number: number): string {
  return String(number).padStart(16, '0')
}

export interface EventId {
  readonly tag: string
  readonly place: string
}
