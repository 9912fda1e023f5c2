/**
 * Returns the id of an event: a tag that stands for the log, so that clients do not learn its name, and the place of the
 * event in the log. Places of one log have one length, so their ids sort as the events do.
 *
 * @param place 16 digits, or 16 digits, a hyphen and 12 digits
 */
export function formatEventId(tag: string, place: string): string {
  return `${tag}.${place}`
}

/** Parses an id that a client sent. `undefined`: no event has such an id. */
export function parseEventId(text: string): EventId | undefined {
  const [, tag, place] = /^([0-9a-f]{32})\.(\d{16}(?:-\d{12})?)$/.exec(text) ?? []
  return tag !== undefined && place !== undefined ? { tag, place } : undefined
}

/** Returns the place of an event that has a number. */
export function toPlace(number: number): string {
  return String(number).padStart(16, '0')
}

export interface EventId {
  readonly tag: string
  readonly place: string
}
