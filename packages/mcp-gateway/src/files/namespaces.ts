import { hash, randomBytes } from 'node:crypto'
import { z } from 'zod'
import { GatewayError } from '../errors.ts'
import { subnetOf } from '../internal/principal.ts'
import type { Principal } from '../internal/principal.ts'
import type { Values } from '../store/gateway-store.ts'

/** Who reads or writes artifacts. */
export interface ArtifactCaller {
  readonly principal: Principal
  /** Of the session, for callers without a name that have one: made by `newScopeId` when the session begins. */
  readonly scope?: string | undefined
  /** Of the network. Callers without a name are counted by it. @default all of them are counted as one */
  readonly address?: string | undefined
}

/**
 * To whom a scope belongs: to a principal; to the one session that was told its id at its beginning; or,
 * where there is neither, to whoever has its id.
 */
export type ScopeOwner =
  | { readonly kind: 'principal'; readonly key: string }
  | { readonly kind: 'session' }
  | { readonly kind: 'holder' }

const StoredOwner: z.ZodType<ScopeOwner> = z.union([
  z.object({ kind: z.literal('principal'), key: z.string() }),
  z.object({ kind: z.literal('session') }),
  z.object({ kind: z.literal('holder') }),
])

/** Stands for a principal in keys: of one length, and tells nobody who it is. */
export function principalKey(principal: Principal): string {
  return `p-${hashOf(`principal\0${principal.id}`)}`
}

/** Whether the caller may read and write this scope. Fails closed. */
function ownsScope(caller: ArtifactCaller, scope: string, owner: ScopeOwner): boolean {
  switch (owner.kind) {
    case 'principal':
      return !caller.principal.isAnonymous && owner.key === principalKey(caller.principal)
    case 'session':
      return caller.principal.isAnonymous && caller.scope === scope
    case 'holder':
      return true
  }
}

/** Under what the artifacts of a scope are listed. */
export function listKey(scope: string, owner: ScopeOwner): string {
  return owner.kind === 'principal' ? owner.key : `s-${scope}`
}

/** Under what a caller's bytes are counted. */
export function accountOf({ principal, address }: ArtifactCaller): string {
  if (!principal.isAnonymous) return principalKey(principal)
  if (address === undefined) return `a-${hashOf(`principal\0${principal.id}`)}`
  return `a-${hashOf(`address\0${subnetOf(address)}`)}`
}

function hashOf(text: string): string {
  return hash('sha256', text).slice(0, 32)
}

/** Scopes outlive what is in them, so that a version never ends before its time. */
const SPARE_MS = 3_600_000

/** One and the same for a scope of somebody else, one that has ended, and one that a model made up. */
function noScope(): GatewayError {
  return new GatewayError('NOT_FOUND', 'There is no such scope: leave `scope` out to get a new one')
}

/** Key of the owner of a scope. */
function scopeKey(scope: string): string {
  return `artifacts/scope/${scope}`
}

/** Key of the scope in which files of a principal are kept by default. */
function defaultScopeKey(principal: string): string {
  return `artifacts/default/${principal}`
}

function storedOwnerFrom(value: unknown): ScopeOwner | undefined {
  return StoredOwner.safeParse(value).data
}

export interface OwnedScope {
  readonly scope: string
  readonly owner: ScopeOwner
}

/** Which scopes there are, and whose they are. */
export class ArtifactScopes {
  readonly #values: Values
  readonly #ttlMs: number

  constructor(values: Values, ttlMs: number) {
    this.#values = values
    this.#ttlMs = ttlMs + SPARE_MS
  }

  /** Whether there is such a scope, and it is the caller's. */
  async mayRead(caller: ArtifactCaller, scope: string): Promise<boolean> {
    return (await this.#owned(caller, scope)) !== undefined
  }

  async own({ principal, scope }: ArtifactCaller): Promise<string | undefined> {
    if (principal.isAnonymous) return scope
    const found = await this.#values.get(defaultScopeKey(principalKey(principal)))
    return typeof found?.value === 'string' ? found.value : undefined
  }

  /** The given scope, else the caller's own, else a new one for whoever is told of it. @throws GatewayError `NOT_FOUND` */
  async forWriting(caller: ArtifactCaller, given: string | undefined): Promise<OwnedScope> {
    if (given !== undefined && given !== caller.scope) {
      const owner = isScopeId(given) ? await this.#owned(caller, given) : undefined
      if (!owner) throw noScope()
      return this.#claimed({ scope: given, owner })
    }
    if (!caller.principal.isAnonymous) return this.#ofPrincipal(principalKey(caller.principal))
    if (caller.scope !== undefined) {
      return this.#claimed({ scope: caller.scope, owner: { kind: 'session' } })
    }
    return this.#claimed({ scope: newScopeId(), owner: { kind: 'holder' } })
  }

  async #ofPrincipal(key: string): Promise<OwnedScope> {
    const at = defaultScopeKey(key)
    const owner = { kind: 'principal', key } as const
    for (let tries = 0; tries < 3; tries++) {
      const scope = (await this.#values.get(at))?.value
      if (typeof scope === 'string' && isScopeId(scope)) {
        await this.#values.touch(at, this.#ttlMs)
        return this.#claimed({ scope, owner })
      }
      // Two first files at once: one of them makes it, the other one finds it.
      await this.#values.put(at, newScopeId(), { ttlMs: this.#ttlMs, ifVersion: null })
    }
    throw new GatewayError('UNAVAILABLE', 'The store does not keep what it was given')
  }

  /** @throws GatewayError `NOT_FOUND`: it is somebody else's */
  async #claimed(owned: OwnedScope): Promise<OwnedScope> {
    const { scope, owner } = owned
    const key = scopeKey(scope)
    const found = await this.#values.get(key)
    if (!found) await this.#values.put(key, owner, { ttlMs: this.#ttlMs, ifVersion: null })
    else if (storedOwnerFrom(found.value)?.kind === owner.kind) {
      await this.#values.touch(key, this.#ttlMs)
    } else throw noScope()
    return owned
  }

  async #owned(caller: ArtifactCaller, scope: string): Promise<ScopeOwner | undefined> {
    const owner = storedOwnerFrom((await this.#values.get(scopeKey(scope)))?.value)
    return owner && ownsScope(caller, scope, owner) ? owner : undefined
  }
}

const ALPHABET = 'abcdefghijklmnopqrstuvwxyz234567'

/** 128 random bits in base32 (RFC 4648, section 6; lower case): nobody can guess it. */
export function newScopeId(): string {
  let bits = BigInt(`0x${randomBytes(16).toString('hex')}`) << 2n
  let text = ''
  for (let n = 0; n < 26; n++) {
    text = `${ALPHABET[Number(bits & 31n)]}${text}`
    bits >>= 5n
  }
  return text
}

export function isScopeId(text: string): boolean {
  return /^[a-z2-7]{26}$/.test(text)
}
