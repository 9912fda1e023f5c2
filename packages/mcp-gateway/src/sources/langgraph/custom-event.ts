import { isRecord } from '../../is-record.ts'
import type { AgentUpdate } from '../../runs/agent-update.ts'

/**
 * What a node tells through its `writer`: `{ type: 'artifact', name, mimeType?, data | text | url }` is a file,
 * `data` being bytes or base64; `{ type: 'status', text }` is a line of progress, `{ type: 'text', text }` a
 * piece of the answer. All else is the graph's own business.
 */
export function updateFromCustom(event: unknown): AgentUpdate | undefined {
  if (!isRecord(event)) return undefined
  const { type, name, text } = event
  if ((type === 'status' || type === 'text') && typeof text === 'string') return { type, text }
  if (type !== 'artifact' || typeof name !== 'string') return undefined
  const data = dataFrom(event)
  if (data === undefined) return undefined
  const mimeType = typeof event['mimeType'] === 'string' ? event['mimeType'] : undefined
  return { type: 'file', file: { name, mimeType, data } }
}

function dataFrom({
  data,
  text,
  url,
}: Readonly<Record<string, unknown>>): Uint8Array | { readonly url: string } | undefined {
  if (data instanceof Uint8Array) return data
  if (typeof data === 'string') return Buffer.from(data, 'base64')
  if (typeof text === 'string') return Buffer.from(text)
  return typeof url === 'string' ? { url } : undefined
}
