import { check } from '@x/internal'
import type { Checks } from '@x/internal'

import { assertGatewayOptions, GatewayError } from '../../errors.ts'
import { authenticateToken } from './authenticate-token.ts'
import type { AuthenticationRequest, Authenticator } from './authenticator.ts'
import { challengeResponse } from './challenge.ts'
import type { Principal } from '../../internal/principal.ts'
import { hashedTokenFrom, principalOf, tokenChecks, type StaticToken } from './static-tokens.ts'

export interface BearerAuthOptions {
  /** Milliseconds since 1970. @default Date.now */
  readonly now?: (() => number) | undefined
}

const optionChecks: Checks<BearerAuthOptions> = { now: check.func }

const tokensByName = { tokens: check.mapOf(check.section(tokenChecks)) }

/** Who calls with the only token there is. */
const ONLY = 'token'

/**
 * Callers with tokens that are handed out by hand: one that allows everything, or several by name, each with its
 * scopes. They are kept hashed, and compared in a time that tells nothing.
 *
 * @throws GatewayError `CONFIG` without a token, as from an environment variable that is not set
 */
export function bearerAuth(
  tokens: string | Readonly<Record<string, StaticToken>> | undefined,
  options: BearerAuthOptions = {},
): Authenticator {
  assertGatewayOptions('bearerAuth()', options, optionChecks)
  const { now = Date.now } = options
  const hashed = Object.entries(entriesFrom(tokens)).map(([name, entry]) =>
    hashedTokenFrom(name, entry),
  )
  return {
    authenticate: (request: AuthenticationRequest): Promise<Principal | Response> =>
      authenticateToken(request, (token) => principalOf(hashed, token, now()) ?? 'refused'),
    refuseScopes: (_request, scopes) => challengeResponse({ error: 'insufficient_scope', scopes }),
  }
}

function entriesFrom(
  tokens: string | Readonly<Record<string, StaticToken>> | undefined,
): Readonly<Record<string, StaticToken>> {
  if (tokens === undefined) {
    throw noToken('bearerAuth() was given no token: is its environment variable set?', 'auth')
  }
  if (typeof tokens === 'string') {
    if (tokens.trim() === '') {
      throw noToken(
        'bearerAuth() was given an empty token: is its environment variable set?',
        'auth',
      )
    }
    return { [ONLY]: { token: tokens, scopes: ['*'] } }
  }
  assertGatewayOptions('bearerAuth()', { tokens }, tokensByName)
  if (Object.keys(tokens).length === 0) {
    throw noToken(
      'bearerAuth() was given an empty list of tokens: `mcp-gateway token` makes one',
      'auth.tokens',
    )
  }
  return tokens
}

function noToken(message: string, path: string): GatewayError {
  return new GatewayError('CONFIG', message, { path })
}
