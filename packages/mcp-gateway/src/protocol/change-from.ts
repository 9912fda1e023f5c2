import { isRecord } from '../is-record.ts'
import type { Change } from './changes.ts'

/** As another process sent it; `undefined` for what this version does not know. */
export function changeFrom(value: unknown): Change | undefined {
  if (!isRecord(value)) return undefined
  const { type, owner, uri } = value
  if (type === 'tools' || type === 'prompts') return { type }
  if (type === 'resources' && typeof owner === 'string') return { type, owner }
  if (type === 'resource' && typeof uri === 'string') return { type, uri }
  return undefined
}
