import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { GatewayStore, Principal } from '@x/mcp-gateway'
import { z } from 'zod'

type Records = GatewayStore['records']

/** Request of a client, while the browser is at the identity service. */
export interface PendingAuthorization {
  readonly clientId: string
  readonly redirectUri: string
  readonly codeChallenge: string
  readonly clientState?: string | undefined
  /** Requested scopes. */
  readonly scopes: readonly string[]
  /** Hash of the secret in the browser that began the sign-in. */
  readonly browser: string
}

/** A signed-in user and what the user may do. */
export interface Grant {
  readonly principalId: string
  readonly claims: Readonly<Record<string, unknown>>
  readonly scopes: readonly string[]
  readonly accessTtlMs: number
  /** Refresh token of the identity service. */
  readonly refreshToken?: string | undefined
}

/** A grant that the client can exchange a code for. */
export interface CodeGrant extends Grant {
  readonly clientId: string
  readonly redirectUri: string
  readonly codeChallenge: string
}

/** Tokens for a client (RFC 6749 section 5.1). */
export interface IssuedTokens {
  readonly accessToken: string
  readonly refreshToken: string | undefined
}

export interface RefreshGrant {
  /** Id of the sign-in, and of all tokens that come from it. */
  readonly family: string
  readonly clientId: string
  readonly principalId: string
  readonly scopes: readonly string[]
  /** Refresh token of the identity service. */
  readonly refreshToken: string
  /** Milliseconds since 1970. */
  readonly endsAt: number
}

/** Body of an answer with tokens (RFC 6749 section 5.1). */
export type TokenBody = Readonly<Record<string, unknown>>

/**
 * A refresh token at hand. `first`: its first use, which must end with `answerRefresh` or `putBackRefresh`. `repeated`: the
 * client gets the answer of the first use again. `pending`: the first use has no answer yet.
 */
export type RefreshUse =
  | { readonly kind: 'first'; readonly grant: RefreshGrant }
  | { readonly kind: 'repeated'; readonly answer: TokenBody }
  | { readonly kind: 'pending' }

/** Tokens of a family that are remembered: the current refresh token, and access tokens that may not have expired. */
const MAX_KEYS = 64

/** Time for which a code can be exchanged. RFC 6749 section 4.1.2 allows ten minutes. */
const CODE_TTL_MS = 300_000

/** Time that a person has to sign in. */
export const STATE_TTL_MS = 600_000

/** Time for which access can be renewed: 30 days. */
const REFRESH_TTL_MS = 2_592_000_000

/**
 * Time after the answer to a refresh token in which its client gets the same answer again. Honest clients send a token
 * twice: from two windows, or because the first answer was lost. A thief who is that fast shares the tokens with the
 * client, and the next renewal of one of them reveals the theft.
 */
const REPEAT_MS = 10_000

/** Time in which the first use of a refresh token must have its answer. Longer than the identity service may take. */
const PENDING_MS = 60_000

/** Time that a second use waits for the answer to the first one, and between two looks at the store. */
const WAIT_MS = 5000
const LOOK_MS = 100

const strings = z.array(z.string())
/** Tokens of one sign-in that may be in use, by their keys in the store. */
const familyShape = z.object({ keys: strings, isRevoked: z.boolean() })
type Family = z.infer<typeof familyShape>
const access = {
  principalId: z.string(),
  scopes: strings,
  claims: z.record(z.string(), z.unknown()),
}
const request = { clientId: z.string(), redirectUri: z.string(), codeChallenge: z.string() }
const accessShape = z.object(access)
const pendingShape = z.object({
  ...request,
  clientState: z.string().optional(),
  scopes: strings,
  browser: z.string(),
})
const codeShape = z.object({
  ...access,
  ...request,
  accessTtlMs: z.number(),
  refreshToken: z.string().optional(),
})
const refreshShape = z.object({
  family: z.string(),
  clientId: z.string(),
  principalId: z.string(),
  scopes: strings,
  refreshToken: z.string(),
  endsAt: z.number(),
})
/** A refresh token that was used. `until`: a second use after this time is a theft. */
const renewalShape = z.object({
  family: z.string(),
  clientId: z.string(),
  isAnswered: z.boolean(),
  until: z.number(),
})
type Renewal = z.infer<typeof renewalShape>
const bodyShape = z.record(z.string(), z.unknown())

export interface GrantsOptions {
  readonly records: Records
  /** URL of the MCP endpoint for which the tokens are valid. */
  readonly resource: string
  /** Milliseconds since 1970. */
  readonly now: () => number
}

/**
 * States, codes and tokens. They are in the store, for all processes. The key is the hash of the secret and of the
 * resource, so a gateway with another resource does not know them. The value is encrypted with the secret: a reader of
 * the store cannot use it. Each but the access token can be used once.
 */
export class Grants {
  readonly #records: Records
  readonly #resource: string
  readonly #now: () => number

  constructor({ records, resource, now }: GrantsOptions) {
    this.#records = records
    this.#resource = resource
    this.#now = now
  }

  /** Returns the state that the identity service sends back. */
  async begin(pending: PendingAuthorization): Promise<string> {
    const state = newSecret()
    await this.#put('state', state, { value: pending, ttlMs: STATE_TTL_MS })
    return state
  }

  /** `undefined` if the state is unknown, used or expired, or belongs to another browser, which can still use it. */
  async takePending(state: string, browser: string): Promise<PendingAuthorization | undefined> {
    const found = await this.#records.get(this.#keyOf('state', state))
    const pending = found && opened(state, found.value, pendingShape)
    if (pending?.browser !== browser) return undefined
    return this.#take('state', state, pendingShape)
  }

  /** Returns the code that the client exchanges for tokens. */
  async putCode(grant: CodeGrant): Promise<string> {
    const code = newSecret()
    await this.#put('code', code, { value: grant, ttlMs: CODE_TTL_MS })
    return code
  }

  /** Revokes the tokens of a code that is used twice: one of the two users stole it (RFC 6749 section 4.1.2). */
  async takeCode(code: string): Promise<CodeGrant | undefined> {
    const grant = await this.#take('code', code, codeShape)
    if (grant) return grant
    await this.#revokeBy(code)
    return undefined
  }

  /**
   * Issues tokens for a code, or for the refresh token of a family. `undefined` if the family was revoked meanwhile.
   *
   * @param family id of the sign-in. @default a new one
   */
  async issue(
    grant: Grant,
    {
      clientId,
      code,
      family = secretKey(newSecret()),
    }: { clientId: string; code?: string; family?: string },
  ): Promise<IssuedTokens | undefined> {
    const { principalId, scopes, claims, accessTtlMs, refreshToken } = grant
    const issued = { accessToken: newSecret(), refreshToken: refreshToken && newSecret() }
    const keys = [this.#keyOf('access', issued.accessToken)]
    if (issued.refreshToken) keys.push(this.#keyOf('refresh', issued.refreshToken))
    // Written before the tokens: a second use of the code finds them even while they are written.
    if (code) await this.#records.put(this.#keyOf('used', code), family, { ttlMs: CODE_TTL_MS })
    if (!(await this.#join(family, keys))) return undefined
    const value = { principalId, scopes, claims }
    await this.#put('access', issued.accessToken, { value, ttlMs: accessTtlMs })
    if (issued.refreshToken && refreshToken) {
      const endsAt = this.#now() + REFRESH_TTL_MS
      const refresh = { family, clientId, principalId, scopes, refreshToken, endsAt }
      await this.#put('refresh', issued.refreshToken, { value: refresh, ttlMs: REFRESH_TTL_MS })
    }
    // The family may have been revoked while the tokens were written.
    if ((await this.#familyOf(family)).isRevoked) {
      for (const key of keys) await this.#records.delete(key)
      return undefined
    }
    return issued
  }

  /** Revokes all tokens of a sign-in, because one of them was stolen. */
  async revoke(family: string): Promise<void> {
    for (;;) {
      const { keys, version } = await this.#familyOf(family)
      const revoked: Family = { keys: [], isRevoked: true }
      if (!(await this.#putFamily(family, revoked, version))) continue
      for (const key of keys) await this.#records.delete(key)
      return
    }
  }

  /** The caller with this access token. `undefined` if the token is unknown, expired or revoked. */
  async caller(token: string): Promise<Principal | undefined> {
    const found = await this.#records.get(this.#keyOf('access', token))
    const grant = found && opened(token, found.value, accessShape)
    if (!grant) return undefined
    const { principalId, scopes, claims } = grant
    return { id: principalId, scopes, claims, isAnonymous: false }
  }

  /**
   * Uses a refresh token. Revokes its family if it is used again later than `REPEAT_MS`, or by another client: one of the
   * two users stole it (RFC 9700 section 4.14.2). `undefined`: the token gives nothing.
   */
  async useRefresh(token: string, clientId: string): Promise<RefreshUse | undefined> {
    for (const end = performance.now() + WAIT_MS; ;) {
      // In this order: the token is deleted after its use was noted.
      const found = await this.#records.get(this.#keyOf('refresh', token))
      const renewal = await this.#renewalOf(token)
      const grant = found && opened(token, found.value, refreshShape)
      const family = renewal?.family ?? grant?.family
      if (family === undefined) return undefined
      const isOwn = (renewal ?? grant)?.clientId === clientId
      if (!isOwn || (renewal && this.#now() >= renewal.until)) {
        await this.revoke(family)
        return undefined
      }
      if (renewal?.isAnswered) return this.#repeated(token, family)
      if (!renewal && grant) {
        const until = this.#now() + PENDING_MS
        const begun: Renewal = { family, clientId, isAnswered: false, until }
        // If a token is used twice at once, the first use is recorded, and the second one reads the record again.
        if (await this.#putRenewal(token, begun, { ifVersion: null, endsAt: grant.endsAt })) {
          return { kind: 'first', grant }
        }
      }
      if (performance.now() >= end) return { kind: 'pending' }
      await sleep(LOOK_MS)
    }
  }

  /** Ends the first use of a refresh token. @param answer `undefined`: the client got no tokens */
  async answerRefresh(token: string, grant: RefreshGrant, answer?: TokenBody): Promise<void> {
    const { family, clientId, endsAt } = grant
    if (answer) await this.#put('answer', token, { value: answer, ttlMs: REPEAT_MS })
    const ended: Renewal = { family, clientId, isAnswered: true, until: this.#now() + REPEAT_MS }
    await this.#putRenewal(token, ended, { endsAt })
    await this.#records.delete(this.#keyOf('refresh', token))
  }

  /** Undoes the first use of a refresh token after a failed renewal. */
  async putBackRefresh(token: string): Promise<void> {
    await this.#records.delete(this.#keyOf('renewal', token))
  }

  async #repeated(token: string, family: string): Promise<RefreshUse | undefined> {
    const found = await this.#records.get(this.#keyOf('answer', token))
    const answer = found && opened(token, found.value, bodyShape)
    if (!answer || (await this.#familyOf(family)).isRevoked) return undefined
    return { kind: 'repeated', answer }
  }

  async #renewalOf(token: string): Promise<Renewal | undefined> {
    const found = await this.#records.get(this.#keyOf('renewal', token))
    return renewalShape.safeParse(found?.value).data
  }

  async #putRenewal(
    token: string,
    renewal: Renewal,
    { ifVersion, endsAt }: { ifVersion?: null; endsAt: number },
  ): Promise<boolean> {
    const options = { ttlMs: Math.max(1, endsAt - this.#now()), ifVersion }
    return (await this.#records.put(this.#keyOf('renewal', token), renewal, options)) !== undefined
  }

  /** Revokes the family that a used code belongs to. */
  async #revokeBy(code: string): Promise<void> {
    const used = await this.#records.get(this.#keyOf('used', code))
    if (typeof used?.value === 'string') await this.revoke(used.value)
  }

  /** Adds tokens to a family. `false` if it was revoked. */
  async #join(family: string, keys: readonly string[]): Promise<boolean> {
    for (;;) {
      const { keys: known, isRevoked, version } = await this.#familyOf(family)
      if (isRevoked) return false
      const joined: Family = { keys: [...known, ...keys].slice(-MAX_KEYS), isRevoked }
      if (await this.#putFamily(family, joined, version)) return true
    }
  }

  async #familyOf(family: string): Promise<Family & { readonly version: string | null }> {
    const found = await this.#records.get(FAMILY + family)
    const { data } = familyShape.safeParse(found?.value)
    return { keys: [], isRevoked: false, ...data, version: found?.version ?? null }
  }

  async #putFamily(family: string, value: Family, ifVersion: string | null): Promise<boolean> {
    const options = { ttlMs: REFRESH_TTL_MS, ifVersion }
    return (await this.#records.put(FAMILY + family, value, options)) !== undefined
  }

  async #put(
    kind: Kind,
    secret: string,
    { value, ttlMs }: { value: object; ttlMs: number },
  ): Promise<void> {
    await this.#records.put(this.#keyOf(kind, secret), seal(secret, JSON.stringify(value)), {
      ttlMs,
    })
  }

  async #take<Value>(
    kind: Kind,
    secret: string,
    shape: z.ZodType<Value>,
  ): Promise<Value | undefined> {
    return opened(secret, await this.#records.take(this.#keyOf(kind, secret)), shape)
  }

  #keyOf(kind: Kind, secret: string): string {
    return `oauth:${kind}:${secretKey(`${this.#resource} ${secret}`)}`
  }
}

const FAMILY = 'oauth:family:'

type Kind = 'state' | 'code' | 'used' | 'access' | 'refresh' | 'renewal' | 'answer'

function opened<Value>(
  secret: string,
  sealed: unknown,
  shape: z.ZodType<Value>,
): Value | undefined {
  if (typeof sealed !== 'string') return undefined
  return shape.safeParse(JSON.parse(unseal(secret, sealed))).data
}

/** A code, state, token or cookie: 256 random bits. */
export function newSecret(): string {
  return randomBytes(32).toString('base64url')
}

/** Hash of a secret or an address for keys in the store. It does not reveal the text. */
export function secretKey(secret: string): string {
  return createHash('sha256').update(secret).digest('base64url')
}

/** Encrypts text, so that only a holder of the secret can read it. */
function seal(secret: string, text: string): string {
  const nonce = randomBytes(12)
  const cipher = createCipheriv('aes-256-gcm', sealingKey(secret), nonce)
  const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
  return Buffer.concat([nonce, cipher.getAuthTag(), sealed]).toString('base64url')
}

/** @throws Error for a wrong secret, or a text that was changed */
function unseal(secret: string, sealed: string): string {
  const bytes = Buffer.from(sealed, 'base64url')
  const decipher = createDecipheriv('aes-256-gcm', sealingKey(secret), bytes.subarray(0, 12))
  decipher.setAuthTag(bytes.subarray(12, 28))
  return Buffer.concat([decipher.update(bytes.subarray(28)), decipher.final()]).toString('utf8')
}

function sealingKey(secret: string): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', secret, '', 'mcp-gateway sealed grant', 32))
}
