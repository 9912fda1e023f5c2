import { isRecord } from '@x/internal'
import { isNewerRecord, isRecordOfEndpoint, isSessionId, sessionRecordFrom } from '@x/mcp-transport'
import type { SessionRecord } from '@x/mcp-transport'

/** The stored session of one server: an id, a record, both, or nothing. A record names the same id. */
export interface StoredSession {
  readonly sessionId?: string | undefined
  readonly record?: SessionRecord | undefined
}

/** The owner that a stored session must have. */
interface SessionOwner {
  /** Endpoint of the server, if known. */
  readonly serverUrl: string | undefined
  readonly principal: string | undefined
  /** True if an id without a record may be used. */
  readonly bareIds: boolean
}

/** The result of reading the two stored texts. */
export interface StoredSessionReading {
  /** The part that may be used. */
  readonly session: StoredSession
  /** Reason why a stored text is not used. */
  readonly refused: 'other-owner' | 'no-record' | 'no-id' | undefined
}

/** Largest stored record, in bytes of UTF-8. The service refuses larger ones. */
export const MAX_RECORD_BYTES = 65_536

/** Field of a stored record: the id that the id key holds until the writer has replaced it. */
const REPLACES = 'replaces'

/**
 * Reads the stored id and the stored record. A record counts if it names this server, this principal and the
 * stored id (both absent is fine). It also counts if its writer has not written the id yet: then the id key is
 * empty, or holds the id that the record replaces. If a record names the stored id but another owner, the id is
 * not used either: the session belongs to somebody else.
 */
export function parseStoredSession(
  texts: { readonly id: string | undefined; readonly record: string | undefined },
  owner: SessionOwner,
): StoredSessionReading {
  const sessionId = isSessionId(texts.id) ? texts.id : undefined
  const stored = sessionRecordFrom(parseJson(texts.record))
  if (stored !== undefined) {
    const { [REPLACES]: replaces, ...record } = stored as SessionRecord & { [REPLACES]?: unknown }
    if (record.sessionId === sessionId || texts.id === undefined || texts.id === replaces) {
      return belongsTo(record, owner)
        ? { session: { sessionId: record.sessionId, record }, refused: undefined }
        : { session: {}, refused: 'other-owner' }
    }
  }
  if (texts.id === undefined) return { session: {}, refused: undefined }
  // Proxies and wrong addresses answer with markup or JSON instead of an id.
  if (sessionId === undefined || /^[<{["]/.test(sessionId)) {
    return { session: {}, refused: 'no-id' }
  }
  return owner.bareIds
    ? { session: { sessionId }, refused: undefined }
    : { session: {}, refused: 'no-record' }
}

/** Returns the format and the session id of a stored record, also of a newer format than ours. */
export function parseRecordHead(
  text: string | undefined,
): { readonly isNewer: boolean; readonly sessionId: unknown } | undefined {
  const value = parseJson(text)
  if (!isRecord(value) || typeof value['v'] !== 'number') return undefined
  return { isNewer: isNewerRecord(value), sessionId: value['sessionId'] ?? undefined }
}

/** Returns the text of a stored record without the field `replaces`. */
export function withoutReplaces(text: string | undefined): string | undefined {
  const value = parseJson(text)
  if (!isRecord(value) || !(REPLACES in value)) return text
  const { [REPLACES]: _, ...record } = value
  return JSON.stringify(record)
}

/**
 * Returns a record as text, with the id that it replaces, if any. A record over the limit is stored without the
 * instructions of the server: they can be that long, and a model works without them. Returns `undefined` if the
 * record is still too large.
 */
export function serializeRecord(record: SessionRecord, replaces?: string): string | undefined {
  const marked = { ...record, [REPLACES]: replaces }
  const text = JSON.stringify(marked)
  if (Buffer.byteLength(text) <= MAX_RECORD_BYTES) return text
  const { instructions: _, ...initializeResult } = record.initializeResult ?? {}
  const shorter = JSON.stringify({ ...marked, initializeResult })
  return record.initializeResult && Buffer.byteLength(shorter) <= MAX_RECORD_BYTES
    ? shorter
    : undefined
}

function belongsTo(record: SessionRecord, owner: SessionOwner): boolean {
  if (record.principal !== undefined && record.principal !== owner.principal) return false
  return owner.serverUrl === undefined || isRecordOfEndpoint(record, owner.serverUrl)
}

function parseJson(text: string | undefined): unknown {
  try {
    return text === undefined ? undefined : JSON.parse(text)
  } catch {
    return undefined // a record that cannot be read counts as missing
  }
}
