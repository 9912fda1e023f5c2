/** What the server can be asked for; part of its URL. */
export type Answer = 'json' | 'sse' | 'stream' | 'mib'

export const EVENTS = 20_000
export const TEXT = 'Two apples were added to the cart.'
export const MIB_TEXT: string = 'An apple a day. '.repeat(65_536)
export const SESSION_ID = '0f8fad5b-d9cb-469f-a165-70867728950e'
export const PROTOCOL_VERSION = '2025-11-25'
/** The stateless revision. */
export const MODERN_VERSION = '2026-07-28'

/** A call as small as real ones are. */
export function requestOf(id: number): {
  readonly jsonrpc: '2.0'
  readonly id: number
  readonly method: 'tools/call'
  readonly params: Record<string, unknown>
} {
  const params = { name: 'add_to_cart', arguments: { item: 'apple', count: 2 } }
  return { jsonrpc: '2.0', id, method: 'tools/call', params }
}

export function notificationOf(progress: number): {
  readonly jsonrpc: '2.0'
  readonly method: 'notifications/progress'
  readonly params: Record<string, unknown>
} {
  const params = { progressToken: 'apples', progress, total: EVENTS }
  return { jsonrpc: '2.0', method: 'notifications/progress', params }
}

/** @throws Error unless this is the answer to the request with this id, with this text. */
export function checkAnswer(message: unknown, id: number, text: string): void {
  if (isObject(message) && message['id'] === id && isObject(message['result'])) {
    const { content } = message['result']
    const [first]: unknown[] = Array.isArray(content) ? content : []
    if (isObject(first) && first['text'] === text) return
  }
  throw new Error(`A wrong answer to request ${id}: ${JSON.stringify(message).slice(0, 200)}`)
}

/** @throws Error unless this is the progress notification with this number. */
export function checkEvent(message: unknown, progress: number): void {
  if (isObject(message) && isObject(message['params'])) {
    if (message['params']['progress'] === progress) return
  }
  throw new Error(`A wrong event at ${progress}: ${JSON.stringify(message).slice(0, 200)}`)
}

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
