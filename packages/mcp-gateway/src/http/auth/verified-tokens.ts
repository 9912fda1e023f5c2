import { createHash } from 'node:crypto'

import { BoundedMap } from '@x/internal'
import type { Principal } from '../../internal/principal.ts'

interface Entry {
  readonly principal: Principal
  readonly until: number
}

const MAX_ENTRIES = 1000

/** Tokens that were found good a moment ago, by their hashes: a signature costs more than the rest of a call. */
export class VerifiedTokens {
  readonly #ttlMs: number
  readonly #entries: Map<string, Entry> = new BoundedMap(MAX_ENTRIES)

  /** @param ttlMs 0: nothing is remembered */
  constructor(ttlMs: number) {
    this.#ttlMs = ttlMs
  }

  get(token: string, now: number): Principal | undefined {
    if (this.#ttlMs === 0) return undefined
    const key = keyOf(token)
    const entry = this.#entries.get(key)
    if (entry === undefined || entry.until > now) return entry?.principal
    this.#entries.delete(key)
    return undefined
  }

  /** @param expiresAt of the token, in milliseconds since 1970 */
  set(
    token: string,
    principal: Principal,
    { now, expiresAt }: { now: number; expiresAt: number },
  ): void {
    const until = Math.min(expiresAt, now + this.#ttlMs)
    if (until <= now) return
    this.#entries.set(keyOf(token), { principal, until })
  }
}

function keyOf(token: string): string {
  return createHash('sha256').update(token).digest('base64')
}
