/** Kept-alive connections, each with one request in flight. */
export const CONNECTIONS = 64
/** Keys that are read or written. */
export const KEYS = 1000

/** Tokens of eight agents. The load uses the last one, but the service compares all of them. */
export const TOKENS: readonly string[] = Array.from(
  { length: 8 },
  (_, index) => `token-of-agent-${index}-${'7f3a9c'.repeat(5)}`,
)
export const AGENT_IDS: readonly string[] = TOKENS.map((_, index) => `agent-${index}`)

/** A prime, so that requests in a row go to keys that are far apart in the file. */
const STRIDE = 617

/** Path of a request: requests go to all keys in turn. */
export function pathOf(index: number): string {
  const key = encodeURIComponent(`mcpsession:folder:shop-${(index * STRIDE) % KEYS}`)
  return `/agenthub_/design/debugstate/${AGENT_IDS.at(-1) ?? ''}/${key}`
}

/** Value under a key that is only read. It has the size of a session id, as all values. */
export const SEED = 'a1b2c3d4-e5f6-a1b2c3d4-e5f6-a1b2c3d4'

/** Value of a write. No two writes have the same one, so that a lost write shows. */
export function valueOf(index: number): string {
  return String(index).padStart(SEED.length, 'x')
}
