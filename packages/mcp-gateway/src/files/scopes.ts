// Scopes: containers of files, each of one owner. Their ids are parts of the URIs of files.
import { randomBytes } from 'node:crypto'
import { z } from 'zod'
import { GatewayError } from '../errors.ts'
import { accountHashOf, ownerOf, type Caller } from '../internal/principal.ts'
import type { Records } from '../store/gateway-store.ts'

interface StoredScope {
  /** As `ownerOf()` returns it. `null`: every caller that knows the id of the scope. */
  readonly owner: string | null
  /** Hash of the account in which its files are counted: that of the caller who wrote the first one. */
  readonly account: string
}

const StoredScope: z.ZodType<StoredScope> = z.object({
  owner: z.string().nullable(),
  account: z.string(),
})

export interface Scope extends StoredScope {
  readonly id: string
}

/** Scopes live longer than their files, so that no version expires too early. */
const SPARE_MS = 3_600_000

export class Scopes {
  readonly #records: Records
  readonly #ttlMs: number

  /** @param ttlMs time for which files are kept */
  constructor(records: Records, ttlMs: number) {
    this.#records = records
    this.#ttlMs = ttlMs + SPARE_MS
  }

  async find(id: string): Promise<Scope | undefined> {
    const stored = StoredScope.safeParse((await this.#records.get(scopeKey(id)))?.value).data
    return stored && { id, ...stored }
  }

  /** Returns a scope that the caller may read and write. `undefined`: there is none with this id. */
  async of(caller: Caller, id: string): Promise<Scope | undefined> {
    const found = await this.find(id)
    return found && (found.owner === null || found.owner === ownerOf(caller)) ? found : undefined
  }

  /** Returns the id of the scope in which files of the caller are stored. `undefined`: there is none yet, or each run gets a new one. */
  async own({ principal, scope }: Caller): Promise<string | undefined> {
    if (principal.isAnonymous) return scope
    const found = await this.#records.get(ownKey({ principal }))
    return typeof found?.value === 'string' ? found.value : undefined
  }

  /**
   * Returns the given scope, else the caller's own one, else a new one for all who know its id. A new one is not stored yet:
   * see `keep()`.
   *
   * @throws GatewayError `NOT_FOUND`
   */
  async forWriting(caller: Caller, given: string | undefined): Promise<Scope> {
    const id = given ?? (await this.#ownForWriting(caller))
    const owner = ownerOf(caller) ?? null
    const found = await this.find(id)
    if (found && (found.owner === null || found.owner === owner)) return found
    const isOwn = given === undefined || given === caller.scope
    if (found || !isOwn) {
      throw new GatewayError('NOT_FOUND', 'The scope of these files has expired')
    }
    return { id, owner, account: accountHashOf(caller) }
  }

  /** Stores a scope for its next file. Returns it as it is stored: another writer may have made it first, in its account. */
  async keep(scope: Scope): Promise<Scope> {
    const { account, id, owner } = scope
    const [key, ttlMs] = [scopeKey(id), this.#ttlMs]
    if (await this.#records.touch(key, ttlMs)) return (await this.find(id)) ?? scope
    const made: StoredScope = { owner, account }
    const version = await this.#records.put(key, made, { ttlMs, ifVersion: null })
    return version === undefined ? ((await this.find(id)) ?? scope) : scope
  }

  async #ownForWriting(caller: Caller): Promise<string> {
    if (caller.principal.isAnonymous) return caller.scope ?? newScopeId()
    const key = ownKey(caller)
    for (let tries = 0; tries < 3; tries++) {
      const id = (await this.#records.get(key))?.value
      if (typeof id === 'string' && (await this.#records.touch(key, this.#ttlMs))) return id
      // Two concurrent first files use one scope: the second write fails, and the next read finds the first one.
      await this.#records.put(key, newScopeId(), { ttlMs: this.#ttlMs, ifVersion: null })
    }
    const text = 'The store lost a record that was just written: try again'
    throw new GatewayError('UNAVAILABLE', text)
  }
}

/** Key of the record of a scope. */
function scopeKey(id: string): string {
  return `files/scope/${id}`
}

/** Key of the id of the scope in which files of a principal are kept. */
function ownKey(caller: Caller): string {
  return `files/own/${ownerOf(caller)}`
}

/** Characters of base32 (RFC 4648, section 6), in lower case. */
const ALPHABET = 'abcdefghijklmnopqrstuvwxyz234567'

/** Returns 26 random characters: 130 bits. */
export function newScopeId(): string {
  return Array.from(randomBytes(26), (byte) => ALPHABET.charAt(byte & 31)).join('')
}

export function isScopeId(text: string): boolean {
  return /^[a-z2-7]{26}$/.test(text)
}
