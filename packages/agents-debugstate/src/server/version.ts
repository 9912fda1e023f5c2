import { randomUUID } from 'node:crypto'

/**
 * A version that no other write has. A counter per value would start again after a delete, and a client
 * that had slept through it would overwrite what it has never seen.
 */
export function newVersion(): string {
  return randomUUID()
}
