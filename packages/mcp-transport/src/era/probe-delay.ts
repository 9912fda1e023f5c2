const FIRST_MS = 500
const MAX_MS = 10_000

/**
 * How long to wait before a server is probed again, in milliseconds: as long as it asked for with
 * `Retry-After`, but never so long that whoever connects would take it for dead.
 *
 * @param retries how many there were before this one
 */
export function probeDelayMs(retries: number, askedMs: number | undefined): number {
  return Math.min(askedMs ?? FIRST_MS * 2 ** retries, MAX_MS)
}
