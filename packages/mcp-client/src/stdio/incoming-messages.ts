import { messageFrom } from '@x/mcp-transport'
import type { JsonRpcMessage } from '@x/mcp-transport'

/**
 * The messages of one line; undefined if it is none. More than one where it is a batch, as 2025-03-26
 * allowed them.
 */
export function incomingMessages(line: string): readonly JsonRpcMessage[] | undefined {
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch {
    return undefined
  }
  const all: readonly unknown[] = Array.isArray(value) ? value : [value]
  const messages = all.map(messageFrom).filter((message) => message !== undefined)
  return messages.length > 0 && messages.length === all.length ? messages : undefined
}
