import { GatewayError } from '../errors.ts'
import type { Values } from '../store/gateway-store.ts'
import type { ArtifactCaller, ScopeOwner } from './artifact-caller.ts'
import { ownsScope, principalKey } from './artifact-caller.ts'
import { defaultScopeKey, scopeKey } from './records/artifact-keys.ts'
import { isScopeId, newScopeId } from './scope-id.ts'
import { storedOwnerFrom } from './records/stored-artifact.ts'

/** Scopes outlive what is in them, so that a version never ends before its time. */
const SPARE_MS = 3_600_000

/** One and the same for a scope of somebody else, one that has ended, and one that a model made up. */
function noScope(): GatewayError {
  return new GatewayError('NOT_FOUND', 'There is no such scope: leave `scope` out to get a new one')
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
