import { hash, timingSafeEqual } from 'node:crypto'

import { check } from '@x/internal'
import type { Checks } from '@x/internal'

import { GatewayError } from '../../errors.ts'
import type { Principal } from '../../internal/principal.ts'

/** A token that does not change, as configured under its name. */
export interface StaticToken {
  /** SHA-256 of the token, as 64 hex digits: `mcp-gateway token` makes it. One of this and `token`. */
  readonly sha256?: string | undefined
  /** The token itself; only its hash is kept. */
  readonly token?: string | undefined
  /** What it allows; `*` is everything. @default nothing */
  readonly scopes?: readonly string[] | undefined
  /** @default never */
  readonly expiresAt?: Date | string | undefined
}

export const tokenChecks: Checks<StaticToken> = {
  sha256: check.string, // its form is checked by hashedTokenFrom()
  token: check.string,
  scopes: check.listOf(check.text),
  expiresAt: {
    takes: 'a date',
    accepts: (value) => check.string.accepts(value) || value instanceof Date,
  },
}

/** A token as it is kept: nobody who reads the memory of the process learns it. */
export interface HashedToken {
  readonly principal: Principal
  readonly sha256: Buffer
  /** Milliseconds since 1970. */
  readonly expiresAt: number
}

/** @throws GatewayError `CONFIG` that names what is wrong, never the token */
export function hashedTokenFrom(name: string, entry: StaticToken): HashedToken {
  const path = `auth.tokens.${name}`
  const { sha256, token, scopes = [], expiresAt } = entry
  if ((sha256 === undefined) === (token === undefined)) {
    throw new GatewayError('CONFIG', `The token "${name}" needs one of sha256 and token`, { path })
  }
  if (token !== undefined && token.trim() === '') {
    throw new GatewayError('CONFIG', `The token "${name}" is empty`, { path: `${path}.token` })
  }
  if (sha256 !== undefined && !/^[0-9a-f]{64}$/i.test(sha256)) {
    const message = `sha256 of the token "${name}" is not 64 hex digits`
    throw new GatewayError('CONFIG', message, { path: `${path}.sha256` })
  }
  const endsAt = expiresAt === undefined ? Infinity : new Date(expiresAt).getTime()
  if (Number.isNaN(endsAt)) {
    const message = `expiresAt of the token "${name}" is no date`
    throw new GatewayError('CONFIG', message, { path: `${path}.expiresAt` })
  }
  return {
    principal: { id: name, scopes: [...scopes], isAnonymous: false, claims: {} },
    sha256: sha256 === undefined ? hashOf(token ?? '') : Buffer.from(sha256, 'hex'),
    expiresAt: endsAt,
  }
}

/** Whose token this is. Looks at all of them, whichever fits: the time it takes tells nothing. */
export function principalOf(
  tokens: readonly HashedToken[],
  token: string,
  now: number,
): Principal | undefined {
  const given = hashOf(token)
  let found: Principal | undefined
  for (const { principal, sha256, expiresAt } of tokens) {
    if (timingSafeEqual(sha256, given) && expiresAt > now) found ??= principal
  }
  return found
}

function hashOf(token: string): Buffer {
  return hash('sha256', token, 'buffer')
}
