import { isObject } from './checks.ts'

/** How often the server was sent this, as it tells. */
export function countOf(counts: unknown, what: string): number {
  const count = isObject(counts) ? counts[what] : undefined
  return typeof count === 'number' ? count : 0
}

/** Everything that was posted: JSON-RPC methods are in small letters, HTTP methods are not. */
export function postsOf(counts: unknown): number {
  if (!isObject(counts)) throw new TypeError('The server did not tell what it was sent')
  return Object.keys(counts)
    .filter((what) => what !== what.toUpperCase())
    .reduce((sum, what) => sum + countOf(counts, what), 0)
}
