import { z } from 'zod'

import type { Values } from '../../store/gateway-store.ts'
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
  readonly clientId: string
  readonly principalId: string
  readonly scopes: readonly string[]
  /** Of the identity service. */
  readonly refreshToken: string
  /** Milliseconds since 1970. */
  readonly endsAt: number
}

export interface GrantTimes {
  readonly stateTtlMs: number
  readonly codeTtlMs: number
  readonly refreshTtlMs: number
  readonly now: () => number
}

const strings = z.array(z.string())
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
    const given = strings.safeParse(await this.#values.take(keyOf('used', code)))
    for (const key of given.data ?? []) await this.#values.delete(key)
    return undefined
  }

  /** @param code for which they are given, if it was one */
  async issue(
    grant: Grant,
    { clientId, code }: { clientId: string; code?: string },
  ): Promise<IssuedTokens> {
    const { principalId, scopes, claims: all, accessTtlMs, refreshToken } = grant
    const { refreshTtlMs, codeTtlMs, now } = this.#times
    const issued = { accessToken: newSecret(), refreshToken: refreshToken && newSecret() }
    const keys = [keyOf('access', issued.accessToken)]
    if (issued.refreshToken) keys.push(keyOf('refresh', issued.refreshToken))
    // Before them: a code that comes twice while they are written finds them all the same.
    if (code) await this.#values.put(keyOf('used', code), keys, { ttlMs: codeTtlMs })
    const access = { principalId, scopes, claims: all }
    await this.#put('access', issued.accessToken, { value: access, ttlMs: accessTtlMs })
    if (issued.refreshToken && refreshToken) {
      const value = { clientId, principalId, scopes, refreshToken, endsAt: now() + refreshTtlMs }
      await this.#put('refresh', issued.refreshToken, { value, ttlMs: refreshTtlMs })
    }
    return issued
  }

  /** Whose access token this is. */
  async access(token: string): Promise<AccessGrant | undefined> {
    const found = await this.#values.get(keyOf('access', token))
    return found && opened(token, found.value, accessShape)
  }

  async takeRefresh(token: string): Promise<RefreshGrant | undefined> {
    return this.#take('refresh', token, refreshShape)
  }

  /** Undoes `takeRefresh`, where it led to nothing. */
  async putBackRefresh(token: string, grant: RefreshGrant): Promise<void> {
    const ttlMs = grant.endsAt - this.#times.now()
    if (ttlMs > 0) await this.#put('refresh', token, { value: grant, ttlMs })
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
