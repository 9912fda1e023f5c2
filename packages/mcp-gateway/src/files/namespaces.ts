import { hash, randomBytes } from 'node:crypto'
import { z } from 'zod'
import { GatewayError } from '../errors.ts'
import { type Principal, subnetOf } from '../internal/principal.ts'
import type { Records } from '../store/gateway-store.ts'

/** Who reads or writes artifacts. */
export interface ArtifactCaller {
  readonly principal: Principal
  /** Scope of the session, for callers without a name: made by `newScopeId` when the session begins. */
  readonly scope?: string | undefined
  /** IP address. Usage of callers without a name is counted by it. @default all of them are counted as one */
  readonly address?: string | undefined
}

/**
 * Owner of a scope. `principal`: the principal of this id. `session`: the session that got the id of the scope when it
 * began. `holder`: every caller that knows the id of the scope.
 */
export interface ScopeOwner {
  readonly kind: 'principal' | 'session' | 'holder'
  /** Id of the principal that made the scope. */
  readonly id: string
}

const StoredOwner: z.ZodType<ScopeOwner> = z.object({
  kind: z.enum(['principal', 'session', 'holder']),
  id: z.string(),
})

/** Returns the text that stands for a principal in keys: a hash of one length. */
function principalKey({ id }: Pick<Principal, 'id'>): string {
  return `p-${hashOf(`principal\0${id}`)}`
}

/** Returns whether the caller may read and write this scope. */
function ownsScope(caller: ArtifactCaller, scope: string, owner: ScopeOwner): boolean {
  switch (owner.kind) {
    case 'principal':
      return !caller.principal.isAnonymous && owner.id === caller.principal.id
    case 'session':
      return caller.principal.isAnonymous && caller.scope === scope
    case 'holder':
      return true
  }
}

/** Returns the id of the list that has the artifacts of a scope. */
export function listKey(scope: string, { kind, id }: ScopeOwner): string {
  return kind === 'principal' ? principalKey({ id }) : sessionListKey(scope)
}

function sessionListKey(scope: string): string {
  return `s-${scope}`
}

/** Returns the id of the list that a caller reads: that of its principal or of its session. */
export function listOf({ principal, scope }: ArtifactCaller): string | undefined {
  if (!principal.isAnonymous) return principalKey(principal)
  return scope === undefined ? undefined : sessionListKey(scope)
}

/** Returns the id of the account in which the bytes of a caller are counted. */
export function accountOf({ principal, address }: ArtifactCaller): string {
  if (!principal.isAnonymous) return principalKey(principal)
  if (address === undefined) return `a-${hashOf(`principal\0${principal.id}`)}`
  return `a-${hashOf(`address\0${subnetOf(address)}`)}`
}

function hashOf(text: string): string {
  return hash('sha256', text).slice(0, 32)
}

/** Scopes live longer than their files, so that no version expires too early. */
const SPARE_MS = 3_600_000

/** Key of the owner of a scope. */
function scopeKey(scope: string): string {
  return `artifacts/scope/${scope}`
}

/** Key of the scope in which files of a principal are kept by default. */
function defaultScopeKey(principal: Pick<Principal, 'id'>): string {
  return `artifacts/default/${principalKey(principal)}`
}

export interface OwnedScope {
  readonly scope: string
  readonly owner: ScopeOwner
}

/** The scopes and their owners. */
export class ArtifactScopes {
  readonly #records: Records
  readonly #ttlMs: number

  constructor(records: Records, ttlMs: number) {
    this.#records = records
    this.#ttlMs = ttlMs + SPARE_MS
  }

  /** Returns whether the scope exists and the caller owns it. */
  async mayRead(caller: ArtifactCaller, scope: string): Promise<boolean> {
    const owner = await this.#storedOwner(scope)
    return owner !== undefined && ownsScope(caller, scope, owner)
  }

  /** Returns the scope in which files of the caller are stored by default. `undefined`: there is none yet, or each run gets a new one. */
  async own({ principal, scope }: ArtifactCaller): Promise<string | undefined> {
    if (principal.isAnonymous) return scope
    const found = await this.#records.get(defaultScopeKey(principal))
    return typeof found?.value === 'string' ? found.value : undefined
  }

  /** Returns the given scope, else the caller's own one, else a new one for all who know its id. @throws GatewayError `NOT_FOUND` */
  async forWriting(caller: ArtifactCaller, given: string | undefined): Promise<OwnedScope> {
    const { principal } = caller
    const { id } = principal
    if (given !== undefined && given !== caller.scope) {
      const owner = isScopeId(given) ? await this.#storedOwner(given) : undefined
      if (owner && ownsScope(caller, given, owner)) return this.#kept(given, owner)
      throw new GatewayError('NOT_FOUND', 'The scope of these files has expired')
    }
    if (!principal.isAnonymous) {
      return this.#kept(await this.#defaultScope(principal), { kind: 'principal', id })
    }
    const kind = caller.scope === undefined ? 'holder' : 'session'
    return this.#kept(caller.scope ?? newScopeId(), { kind, id })
  }

  async #defaultScope(principal: Principal): Promise<string> {
    const key = defaultScopeKey(principal)
    for (let tries = 0; tries < 3; tries++) {
      const scope = (await this.#records.get(key))?.value
      if (typeof scope === 'string' && (await this.#records.touch(key, this.#ttlMs))) return scope
      // Two concurrent first files use one scope: the second write fails, and the next read finds the first one.
      await this.#records.put(key, newScopeId(), { ttlMs: this.#ttlMs, ifVersion: null })
    }
    const text = 'The store lost a record that was just written: try again'
    throw new GatewayError('UNAVAILABLE', text)
  }

  async #kept(scope: string, owner: ScopeOwner): Promise<OwnedScope> {
    const [key, ttlMs] = [scopeKey(scope), this.#ttlMs]
    const isKnown = await this.#records.touch(key, ttlMs)
    if (!isKnown) await this.#records.put(key, owner, { ttlMs, ifVersion: null })
    return { scope, owner }
  }

  async #storedOwner(scope: string): Promise<ScopeOwner | undefined> {
    return StoredOwner.safeParse((await this.#records.get(scopeKey(scope)))?.value).data
  }
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
