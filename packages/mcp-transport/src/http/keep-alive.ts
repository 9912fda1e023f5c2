/** What is known of an origin that closes connections without saying when. */
interface Observed {
  /** How long the last connection that the server closed had not been used, in milliseconds. */
  readonly closedAfterMs: number
  readonly limitMs: number | undefined
}

/** By origin: one for all dispatchers of the process. */
const observed = new Map<string, Observed>()

const MAX_ORIGINS = 1000
/** What closes earlier is a restart or a broken connection, and no rule. */
const SHORTEST_MS = 500
/** Two closings after nearly the same time are a rule; restarts come at any time. */
const ALIKE = 0.25
/** Leaves time for a request to arrive before the server closes the connection. */
const SAFE_SHARE = 0.75

/**
 * Limit for connections that are not used, in milliseconds. A `Keep-Alive` header of the server takes the place
 * of this limit; many servers close connections earlier without such a header.
 */
export function keepAliveFor(origin: string, defaultMs: number): number {
  return Math.min(observed.get(origin)?.limitMs ?? defaultMs, defaultMs)
}

/** The server closed a connection that had not been used for about so long. */
export function learnKeepAlive(origin: string, unusedMs: number): void {
  if (unusedMs < SHORTEST_MS) return
  const before = observed.get(origin)
  const isRule =
    before !== undefined && Math.abs(before.closedAfterMs - unusedMs) <= unusedMs * ALIKE
  const limitMs = isRule
    ? Math.min(before.closedAfterMs, unusedMs, before.limitMs ?? unusedMs) * SAFE_SHARE
    : before?.limitMs
  observed.delete(origin)
  observed.set(origin, { closedAfterMs: unusedMs, limitMs })
  for (const oldest of observed.keys()) {
    if (observed.size <= MAX_ORIGINS) break
    observed.delete(oldest)
  }
}
