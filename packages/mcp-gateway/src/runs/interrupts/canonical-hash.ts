import { createHash } from 'node:crypto'
import { canonicalJson } from '@x/internal'

/** Returns 22 characters that are the same for equal JSON values, in whatever order the keys came. */
export function canonicalHash(value: unknown): string {
  const digest = createHash('sha256').update(canonicalJson(value)).digest()
  return digest.subarray(0, 16).toString('base64url')
}
