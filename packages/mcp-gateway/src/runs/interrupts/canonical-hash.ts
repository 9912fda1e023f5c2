import { createHash } from 'node:crypto'
import { isRecord } from '@x/internal'

/** 22 characters that are the same for the same JSON, in whatever order its keys came. */
export function canonicalHash(value: unknown): string {
  const json = JSON.stringify(sorted(value)) ?? ''
  return createHash('sha256').update(json).digest().subarray(0, 16).toString('base64url')
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (!isRecord(value)) return value
  return Object.fromEntries(
    Object.keys(value)
      .toSorted()
      .map((key) => [key, sorted(value[key])]),
  )
}
