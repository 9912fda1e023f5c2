import type { DebugStateAddress } from './debug-state-store.ts'

/** Where things lie in Redis. What is in braces decides the node of a cluster: one agent, one node. */
export interface RedisKeys {
  /** A hash for each value, which expires by itself: `value`, `version`, `bytes`, `updatedAt`, `expiresAt`. */
  record(key: string): string
  /** A sorted set of the agent's keys, all with score 0 and so in the order of their bytes. */
  readonly names: string
  /** A sorted set of the same keys, by the time at which they expire. */
  readonly expiries: string
}

/**
 * `{prefix:agentId}:value:key`, `{prefix:agentId}:keys` and `{prefix:agentId}:expiries`. The agent id is
 * percent-encoded, so that it can end neither its part nor the braces; the key is the rest, whatever is in it.
 */
export function redisKeys(prefix: string, agentId: string): RedisKeys {
  const agent = `{${prefix}:${encodeURIComponent(agentId)}}`
  return {
    record: (key) => `${agent}:value:${key}`,
    names: `${agent}:keys`,
    expiries: `${agent}:expiries`,
  }
}

/** All that a change of one value touches. */
export function keysOfChange(prefix: string, { agentId, key }: DebugStateAddress): string[] {
  const keys = redisKeys(prefix, agentId)
  return [keys.record(key), keys.names, keys.expiries]
}
