import type { RemoteValue, WriteCondition } from './debug-state-client.ts'

/** What was last seen of a remote value. */
export interface Seen extends RemoteValue {
  readonly isSeen: boolean
}

export const UNSEEN: Seen = { isSeen: false, text: undefined, etag: undefined }
export const ABSENT: Seen = { isSeen: true, text: undefined, etag: undefined }

export function seen({ text, etag }: RemoteValue): Seen {
  return { isSeen: true, text, etag }
}

/** The condition of a write over what was seen. A service that gave a value but no ETag has no conditions: there the last writer wins. */
export function overwriting({ text, etag }: Seen): WriteCondition {
  if (text === undefined) return { ifAbsent: true }
  return etag === undefined ? undefined : { ifMatch: etag }
}
