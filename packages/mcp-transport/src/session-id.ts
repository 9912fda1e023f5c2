const MAX_LENGTH = 1024
const VISIBLE_ASCII = /^[\x21-\x7E]+$/

/** Whether a value may be used as `Mcp-Session-Id`: visible ASCII (specification), at most 1 KiB (ours). */
export function isSessionId(value: unknown): value is string {
  return isVisibleAscii(value) && value.length <= MAX_LENGTH
}

/** Whether a value may stand in a header as it is. */
export function isVisibleAscii(value: unknown): value is string {
  return typeof value === 'string' && VISIBLE_ASCII.test(value)
}

/** A session id as it may stand in a log, an error or an event: `ab12…(36)`. */
export function shortSessionId(id: string): string {
  return `${id.slice(0, 4)}…(${id.length})`
}
