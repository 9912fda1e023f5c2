import { isSessionId, sessionRecordFrom } from '@x/mcp-transport'
import type { SessionRecord } from '@x/mcp-transport'
import type { StoredSession } from './session-copy.ts'

/** Whom a stored session has to belong to. */
export interface SessionOwner {
  /** The server's endpoint, where it is known. */
  readonly serverUrl?: string | undefined
  readonly principal?: string | undefined
  /** Whether an id that no record vouches for may be used. */
  readonly bareIds: boolean
}

/** What a pair of stored texts means. */
export interface StoredSessionReading {
  /** What may be used of it. */
  readonly session: StoredSession
  /** Why there is nothing to use although something is stored. */
  readonly refused?: 'other-owner' | 'no-record' | 'no-id' | undefined
}

/** The largest record that is stored, in bytes of UTF-8; the service refuses more. */
export const MAX_RECORD_BYTES = 65_536

/** Field of a stored record: the id that the id key still holds until it is written, too. */
const REPLACES = 'replaces'

/**
 * Reads id and record as stored. A record counts if it names the stored id (none agrees with none), this
 * server and this principal; also if its writer has not written the id yet: then the id key holds nothing, or
 * the id that the record replaces. One that vouches for the id but names another owner takes the id with it:
 * the session is somebody else's.
 */
export function storedSessionFrom(
  texts: { readonly id: string | undefined; readonly record: string | undefined },
  owner: SessionOwner,
): StoredSessionReading {
  const sessionId = isSessionId(texts.id) ? texts.id : undefined
  const stored = sessionRecordFrom(jsonFrom(texts.record))
  if (stored !== undefined) {
    const { [REPLACES]: replaces, ...record } = stored as SessionRecord & { [REPLACES]?: unknown }
    if (record.sessionId === sessionId || texts.id === undefined || texts.id === replaces) {
      return belongsTo(record, owner)
        ? { session: { sessionId: record.sessionId, record } }
        : { session: {}, refused: 'other-owner' }
    }
  }
  if (texts.id === undefined) return { session: {} }
  if (sessionId === undefined || looksLikeDocument(sessionId)) {
    return { session: {}, refused: 'no-id' }
  }
  return owner.bareIds ? { session: { sessionId } } : { session: {}, refused: 'no-record' }
}

/**
 * What a stored text vouches for, if it is a record of a format that is newer than ours: its writer knows
 * more of that session than we do.
 */
export function newerRecordFrom(
  text: string | undefined,
): { readonly sessionId: unknown } | undefined {
  const value = jsonFrom(text)
  if (!isObject(value) || typeof value['v'] !== 'number' || value['v'] <= 1) return undefined
  return { sessionId: value['sessionId'] ?? undefined }
}

/** Whether the client that opened one session can go on in the other without a handshake. */
export function isInterchangeable(one: SessionRecord, other: SessionRecord): boolean {
  return (
    one.era === other.era &&
    one.serverUrl === other.serverUrl &&
    one.principal === other.principal &&
    one.initializeParamsHash === other.initializeParamsHash &&
    (one.initializeResult === undefined) === (other.initializeResult === undefined)
  )
}

/** The session that a stored record names. */
export function sessionIdFrom(text: string | undefined): string | undefined {
  return sessionRecordFrom(jsonFrom(text))?.sessionId
}

/** The text of a stored record without the id that it replaces. */
export function unmarked(text: string | undefined): string | undefined {
  const value = jsonFrom(text)
  if (!isObject(value) || !(REPLACES in value)) return text
  const { [REPLACES]: _, ...record } = value
  return JSON.stringify(record)
}

/**
 * A record as text, with the id that it replaces if there is one. Over the limit it goes without the server's instructions, which a model can do
 * without and which alone can be that long; still over it, `undefined`.
 */
export function recordText(record: SessionRecord, replaces?: string): string | undefined {
  const marked = { ...record, [REPLACES]: replaces }
  const text = JSON.stringify(marked)
  if (Buffer.byteLength(text) <= MAX_RECORD_BYTES) return text
  const { instructions: _, ...initializeResult } = record.initializeResult ?? {}
  const shorter = JSON.stringify({ ...marked, initializeResult })
  return record.initializeResult && Buffer.byteLength(shorter) <= MAX_RECORD_BYTES
    ? shorter
    : undefined
}

/** What a proxy or a wrong address answers instead of an id: markup, or JSON. */
function looksLikeDocument(text: string): boolean {
  return /^[<{["]/.test(text)
}

function belongsTo(record: SessionRecord, owner: SessionOwner): boolean {
  const named = record.principal === undefined || record.principal === owner.principal
  return (
    named && (owner.serverUrl === undefined || isSameEndpoint(record.serverUrl, owner.serverUrl))
  )
}

/** Without the query: a record holds a digest in its place, and whoever adopts the record compares that. */
function isSameEndpoint(one: string, other: string): boolean {
  if (!URL.canParse(one) || !URL.canParse(other)) return false
  const [a, b] = [new URL(one), new URL(other)]
  return a.origin === b.origin && a.pathname === b.pathname
}

function jsonFrom(text: string | undefined): unknown {
  try {
    return text === undefined ? undefined : JSON.parse(text)
  } catch {
    return undefined // a bad record counts as none
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
