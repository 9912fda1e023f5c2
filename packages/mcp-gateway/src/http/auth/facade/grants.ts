import { z } from 'zod'

import type { Values } from '../../../store/gateway-store.ts'
import { newSecret, seal, secretKey, unseal } from './secret.ts'

/** What a client asked for, while the browser is at the identity service. */
export interface PendingAuthorization {
  readonly clientId: string
  readonly redirectUri: string
  readonly codeChallenge: string
  readonly clientState?: string | undefined
  /** As asked for. */
  readonly scopes: readonly string[]
}

/** Who signed in, and what it is worth. */
export interface Grant {
  readonly principalId: string
  readonly claims: Readonly<Record<string, unknown>>
  readonly scopes: readonly string[]
  readonly accessTtlMs: number
  /** Of the identity service. */
  readonly refreshToken?: string | undefined
}

/** A grant that waits to be fetched by whoever asked for it. */
export interface CodeGrant extends Grant {
  readonly clientId: string
  readonly redirectUri: string
  readonly codeChallenge: string
}

/** What a client is given (RFC 6749 section 5.1). */
export interface IssuedTokens {
  readonly accessToken: string
  readonly refreshToken?: string | undefined
}

export interface AccessGrant {
  readonly principalId: string
  readonly scopes: readonly string[]
  readonly claims: Readonly<Record<string, unknown>>
}

export interface RefreshGrant {
  /** Of the sign-in: all tokens that came from it. */
  readonly family: string
  readonly clientId: string
  readonly principalId: string
  readonly scopes: readonly string[]
  /** Of the identity service. */
  readonly refreshToken: string
  /** Milliseconds since 1970. */
  readonly endsAt: number
}

/** The tokens of one sign-in, as far as they are in use. */
interface Family {
  /** In the store. */
  readonly keys: readonly string[]
  readonly isRevoked: boolean
}

/** Tokens of a family that are remembered: the refresh token in use, and access tokens that may not have ended. */
const MAX_KEYS = 64

export interface GrantTimes {
  readonly stateTtlMs: number
  readonly codeTtlMs: number
  readonly refreshTtlMs: number
  readonly now: () => number
}

const strings = z.array(z.string())
const familyShape: z.ZodType<Family> = z.object({ keys: strings, isRevoked: z.boolean() })
const claims = z.record(z.string(), z.unknown())
const pendingShape: z.ZodType<PendingAuthorization> = z.object({
  clientId: z.string(),
  redirectUri: z.string(),
  codeChallenge: z.string(),
  clientState: z.string().optional(),
  scopes: strings,
})
const codeShape: z.ZodType<CodeGrant> = z.object({
  principalId: z.string(),
  claims,
  scopes: strings,
  accessTtlMs: z.number(),
  refreshToken: z.string().optional(),
  clientId: z.string(),
  redirectUri: z.string(),
  codeChallenge: z.string(),
})
const accessShape: z.ZodType<AccessGrant> = z.object({
  principalId: z.string(),
  scopes: strings,
  claims,
})
const refreshShape: z.ZodType<RefreshGrant> = z.object({
  family: z.string(),
  clientId: z.string(),
  principalId: z.string(),
  scopes: strings,
  refreshToken: z.string(),
  endsAt: z.number(),
})

/**
 * States, codes and tokens of a facade. They are in the store, where every process finds them, under their hashes and
 * sealed with themselves: who reads the store has none of them. Each but the access token can be used once.
 */
export class Grants {
  readonly #values: Values
  readonly #times: GrantTimes

  constructor(values: Values, times: GrantTimes) {
    this.#values = values
    this.#times = times
  }

  /** @returns the state that the browser brings back */
  async begin(pending: PendingAuthorization): Promise<string> {
    const state = newSecret()
    await this.#put('state', state, { value: pending, ttlMs: this.#times.stateTtlMs })
    return state
  }

  /** `undefined`: never begun, used before, or too late. */
  async takePending(state: string): Promise<PendingAuthorization | undefined> {
    return this.#take('state', state, pendingShape)
  }

  /** @returns the code that the client trades for tokens */
  async putCode(grant: CodeGrant): Promise<string> {
    const code = newSecret()
    await this.#put('code', code, { value: grant, ttlMs: this.#times.codeTtlMs })
    return code
  }

  /** Takes back what a code gave when it comes a second time: one of the two is a thief (RFC 6749 section 4.1.2). */
  async takeCode(code: string): Promise<CodeGrant | undefined> {
    const grant = await this.#take('code', code, codeShape)
    if (grant) return grant
    await this.#revokeBy(code)
    return undefined
  }

  /**
   * @param code for which they are given, if it was one
   * @param family of the refresh token for which they are given. @default a new one
   * @returns `undefined` if the family was revoked meanwhile
   */
  async issue(
    grant: Grant,
    {
      clientId,
      code,
      family = secretKey(newSecret()),
    }: { clientId: string; code?: string; family?: string },
  ): Promise<IssuedTokens | undefined> {
    const { principalId, scopes, claims: all, accessTtlMs, refreshToken } = grant
    const { refreshTtlMs, codeTtlMs, now } = this.#times
    const issued = { accessToken: newSecret(), refreshToken: refreshToken && newSecret() }
    const keys = [keyOf('access', issued.accessToken)]
    if (issued.refreshToken) keys.push(keyOf('refresh', issued.refreshToken))
    // Before them: a code that comes twice while they are written finds them all the same.
    if (code) await this.#values.put(keyOf('used', code), family, { ttlMs: codeTtlMs })
    if (!(await this.#join(family, keys))) return undefined
    const access = { principalId, scopes, claims: all }
    await this.#put('access', issued.accessToken, { value: access, ttlMs: accessTtlMs })
    if (issued.refreshToken && refreshToken) {
      const endsAt = now() + refreshTtlMs
      const value = { family, clientId, principalId, scopes, refreshToken, endsAt }
      await this.#put('refresh', issued.refreshToken, { value, ttlMs: refreshTtlMs })
    }
    // A revocation may have come before they were written.
    if ((await this.#familyOf(family)).isRevoked) {
      for (const key of keys) await this.#values.delete(key)
      return undefined
    }
    return issued
  }

  /** Revokes all tokens of a sign-in: one of its tokens is in the wrong hands. */
  async revoke(family: string): Promise<void> {
    for (;;) {
      const { keys, version } = await this.#familyOf(family)
      const revoked: Family = { keys: [], isRevoked: true }
      if (!(await this.#putFamily(family, revoked, version))) continue
      for (const key of keys) await this.#values.delete(key)
      return
    }
  }

  /** Whose access token this is. */
  async access(token: string): Promise<AccessGrant | undefined> {
    const found = await this.#values.get(keyOf('access', token))
    return found && opened(token, found.value, accessShape)
  }

  /** Revokes the family of a token that was used before: its client or a thief has it twice (RFC 9700, section 4.14.2). */
  async takeRefresh(token: string): Promise<RefreshGrant | undefined> {
    const found = await this.#values.get(keyOf('refresh', token))
    const grant = found && opened(token, found.value, refreshShape)
    if (grant) {
      // Before it is taken: of two uses at once, the second one finds it.
      const ttlMs = Math.max(1, grant.endsAt - this.#times.now())
      await this.#values.put(keyOf('used', token), grant.family, { ttlMs })
      const taken = await this.#take('refresh', token, refreshShape)
      if (taken) return taken
    }
    await this.#revokeBy(token)
    return undefined
  }

  /** Undoes `takeRefresh`, where it led to nothing. */
  async putBackRefresh(token: string, grant: RefreshGrant): Promise<void> {
    const ttlMs = grant.endsAt - this.#times.now()
    await this.#values.delete(keyOf('used', token))
    if (ttlMs > 0) await this.#put('refresh', token, { value: grant, ttlMs })
  }

  /** @param secret that was used before, if it is one of ours */
  async #revokeBy(secret: string): Promise<void> {
    const used = await this.#values.get(keyOf('used', secret))
    if (typeof used?.value === 'string') await this.revoke(used.value)
  }

  /** @returns whether the family is good */
  async #join(family: string, keys: readonly string[]): Promise<boolean> {
    for (;;) {
      const { keys: known, isRevoked, version } = await this.#familyOf(family)
      if (isRevoked) return false
      const joined: Family = { keys: [...known, ...keys].slice(-MAX_KEYS), isRevoked }
      if (await this.#putFamily(family, joined, version)) return true
    }
  }

  async #familyOf(family: string): Promise<Family & { readonly version: string | null }> {
    const found = await this.#values.get(FAMILY + family)
    const { data } = familyShape.safeParse(found?.value)
    return { keys: [], isRevoked: false, ...data, version: found?.version ?? null }
  }

  async #putFamily(family: string, value: Family, ifVersion: string | null): Promise<boolean> {
    const options = { ttlMs: this.#times.refreshTtlMs, ifVersion }
    return (await this.#values.put(FAMILY + family, value, options)) !== undefined
  }

  async #put(
    kind: Kind,
    secret: string,
    { value, ttlMs }: { value: object; ttlMs: number },
  ): Promise<void> {
    await this.#values.put(keyOf(kind, secret), seal(secret, JSON.stringify(value)), { ttlMs })
  }

  async #take<Value>(
    kind: Kind,
    secret: string,
    shape: z.ZodType<Value>,
  ): Promise<Value | undefined> {
    return opened(secret, await this.#values.take(keyOf(kind, secret)), shape)
  }
}

const FAMILY = 'oauth:family:'

type Kind = 'state' | 'code' | 'used' | 'access' | 'refresh'

function keyOf(kind: Kind, secret: string): string {
  return `oauth:${kind}:${secretKey(secret)}`
}

function opened<Value>(
  secret: string,
  sealed: unknown,
  shape: z.ZodType<Value>,
): Value | undefined {
  if (typeof sealed !== 'string') return undefined
  return shape.safeParse(JSON.parse(unseal(secret, sealed))).data
}
