import { isRecord } from '@x/internal'
import type { AgentUpdate } from '../agent-update.ts'

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

/**
 * Returns bytes as they are, or as JSON has them that a server sent: an array, the form of `Buffer.toJSON`, or an object
 * whose keys are the places of a `Uint8Array`. `undefined` for anything else.
 */
export function bytesFrom(value: unknown): Uint8Array | undefined {
  if (value instanceof Uint8Array) return value
  if (value instanceof ArrayBuffer) return new Uint8Array(value)
  if (isRecord(value) && value['type'] === 'Buffer') return bytesFrom(value['data'])
  const values: readonly unknown[] | undefined = Array.isArray(value) ? value : placesOf(value)
  if (values === undefined || !values.every(isByte)) return undefined
  return Uint8Array.from(values)
}

/** JSON keeps whole numbers as keys in their order, so that the last place tells whether any is missing. */
function placesOf(value: unknown): readonly unknown[] | undefined {
  if (!isRecord(value)) return undefined
  const places = Object.keys(value)
  const isComplete = places.length > 0 && places.every((place, index) => place === String(index))
  return isComplete ? Object.values(value) : undefined
}

function isByte(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= 255
}

function dataFrom({
  data,
  text,
  url,
}: Readonly<Record<string, unknown>>): Uint8Array | { readonly url: string } | undefined {
  const bytes = bytesFrom(data)
  if (bytes !== undefined) return bytes
  if (typeof data === 'string') return Buffer.from(data, 'base64')
  if (typeof text === 'string') return Buffer.from(text)
  return typeof url === 'string' ? { url } : undefined
}
