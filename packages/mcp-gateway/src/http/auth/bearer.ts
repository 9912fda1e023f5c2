import { timingSafeEqual } from 'node:crypto'
import { check, type Checks } from '@x/internal'
import { GatewayError, assertGatewayOptions } from '../../errors.ts'
import type { Principal } from '../../internal/principal.ts'
import { sha256Of } from '../../internal/text.ts'
import { authenticateToken, challengeResponse, TOKEN } from './authenticator.ts'
import type { AuthenticationRequest, Authenticator } from './authenticator.ts'

/** A fixed token, configured under its name. */
export interface StaticToken {
  /**
   * The token, at least 16 characters of `A-Z a-z 0-9 - . _ ~ + /`; or `sha256:` and its hash, as `mcp-gateway token`
   * prints it.
   */
  readonly token: string
  /** Scopes of the token. `*` is every scope. @default none */
  readonly scopes?: readonly string[] | undefined
  /** Time at which the token ends, such as `2027-01-01`. @default never */
  readonly expiresAt?: Date | string | undefined
}

const tokenChecks: Checks<StaticToken> = {
  token: check.required(check.string), // its form is checked by hashedTokenFrom()
  scopes: check.listOf(check.text),
  expiresAt: {
    takes: 'a date',
    accepts: (value) => check.string.accepts(value) || value instanceof Date,
  },
}

export interface BearerAuthOptions {
  /** Milliseconds since 1970. @default Date.now */
  readonly now?: (() => number) | undefined
}

const optionChecks: Checks<BearerAuthOptions> = { now: check.func }

const tokensByName = { tokens: check.mapOf(check.section(tokenChecks)) }

/** A shorter token can be guessed. The debug-state service has the same limit. */
const MIN_TOKEN_LENGTH = 16

/** Begins the hash of a token. No token contains a colon. */
export const HASHED = 'sha256:'

/** Name of the principal if there is a single token without a name. */
const ONLY = 'token'

/**
 * Authenticates callers with fixed tokens: one token with every scope, or several by name, each with its scopes.
 * Tokens are kept as hashes, and compared in constant time.
 *
 * @throws GatewayError `CONFIG` without a token, for example if an environment variable is not set, and for a token of
 *   fewer than 16 characters
 * @example
 * ```ts
 * import { bearerAuth, createGateway } from '@x/mcp-gateway'
 *
 * const gateway = createGateway({ auth: bearerAuth(process.env['MCP_TOKEN']) })
 * ```
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
      authenticateToken(request, (token) => {
        const given = sha256Of(token)
        const at = now()
        let found: Principal | undefined
        // All tokens are compared, so that the time reveals nothing.
        for (const { principal, sha256, expiresAt } of hashed) {
          if (timingSafeEqual(sha256, given) && expiresAt > at) found ??= principal
        }
        return found ?? 'refused'
      }),
    refuseScopes: (_request, scopes) => challengeResponse({ error: 'insufficient_scope', scopes }),
  }
}

function entriesFrom(
  tokens: string | Readonly<Record<string, StaticToken>> | undefined,
): Readonly<Record<string, StaticToken>> {
  if (tokens === undefined || (typeof tokens === 'string' && tokens.trim() === '')) {
    const what = tokens === undefined ? 'no token' : 'an empty token'
    throw configError('auth', `bearerAuth() was given ${what}: is its environment variable set?`)
  }
  if (typeof tokens === 'string') return { [ONLY]: { token: tokens, scopes: ['*'] } }
  assertGatewayOptions('bearerAuth()', { tokens }, tokensByName)
  if (Object.keys(tokens).length === 0) {
    const message = 'bearerAuth() was given an empty list of tokens: `mcp-gateway token` makes one'
    throw configError('auth.tokens', message)
  }
  return tokens
}

function configError(path: string, message: string): GatewayError {
  return new GatewayError('CONFIG', message, { path })
}

/** A token as it is kept in memory. */
interface HashedToken {
  readonly principal: Principal
  readonly sha256: Buffer
  /** Milliseconds since 1970. */
  readonly expiresAt: number
}

/** @throws GatewayError `CONFIG`, which never contains the token */
export function hashedTokenFrom(name: string, entry: StaticToken): HashedToken {
  const path = `auth.tokens.${name}`
  const { token, scopes = [], expiresAt } = entry
  const digits = token.startsWith(HASHED) ? token.slice(HASHED.length) : undefined
  if (digits !== undefined && !/^[0-9a-f]{64}$/i.test(digits)) {
    const message = `The hash of the token "${name}" is not 64 hex digits after ${HASHED}`
    throw configError(`${path}.token`, message)
  }
  if (digits === undefined && (!TOKEN.test(token) || token.length < MIN_TOKEN_LENGTH)) {
    const rule = `at least ${MIN_TOKEN_LENGTH} characters of A-Z a-z 0-9 - . _ ~ + /`
    const message = `The token "${name}" needs ${rule}: \`mcp-gateway token\` makes one`
    throw configError(`${path}.token`, message)
  }
  const endsAt = expiresAt === undefined ? Infinity : new Date(expiresAt).getTime()
  if (Number.isNaN(endsAt)) {
    throw configError(`${path}.expiresAt`, `expiresAt of the token "${name}" is not a date`)
  }
  return {
    principal: { id: name, scopes: [...scopes], isAnonymous: false, claims: {} },
    sha256: digits === undefined ? sha256Of(token) : Buffer.from(digits, 'hex'),
    expiresAt: endsAt,
  }
}
