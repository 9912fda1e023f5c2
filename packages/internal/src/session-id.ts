import { isRecord } from './is-record.ts'

const MAX_LENGTH = 1024
const VISIBLE_ASCII = /^[\x21-\x7E]+$/

/** Returns whether a value is a valid `Mcp-Session-Id`: visible ASCII (specification), at most 1 KiB (own limit). */
export function isSessionId(value: unknown): value is string {
  return isVisibleAscii(value) && value.length <= MAX_LENGTH
}

export function isVisibleAscii(value: unknown): value is string {
  return typeof value === 'string' && VISIBLE_ASCII.test(value)
}

/** Shortens a session id for logs, errors and events: `ab12…(36)`. */
export function shortSessionId(id: string): string {
  return `${id.slice(0, 4)}…(${id.length})`
}

/** Returns whether a value from a store is a session record of a newer format, which must not be overwritten. */
export function isNewerRecord(value: unknown): boolean {
  return isRecord(value) && typeof value['v'] === 'number' && value['v'] > 1
}
