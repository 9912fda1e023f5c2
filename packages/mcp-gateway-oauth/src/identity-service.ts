import { GatewayError } from '@x/mcp-gateway'
import { readBounded, secureUrlFrom } from '@x/mcp-gateway/adapter'
import { z } from 'zod'
import type { OAuthFacadeOptions } from './oauth-facade.ts'

/** A signed-in user, as the identity service describes it. */
export interface Identity {
  readonly claims: Readonly<Record<string, unknown>>
  /** Refresh token of the identity service. It never leaves the gateway. */
  readonly refreshToken?: string | undefined
  /** Time for which the claims are valid. Seconds. */
  readonly expiresInSec?: number | undefined
}

/** Signs people in. Tokens that it issues stay between it and the gateway. */
export interface IdentityService {
  /** Returns the URL of the sign-in page. It sends the browser to `callback` with a `code` and this `state`. */
  loginUrl(request: { readonly callback: string; readonly state: string }): string
  /** @throws IdentityServiceError */
  exchange(code: string, callback: string): Promise<Identity>
  /** @throws IdentityServiceError */
  refresh(refreshToken: string): Promise<Identity>
}

export class IdentityServiceError extends Error {
  override readonly name = 'IdentityServiceError'
  /** `refused`: the service answered 400, so the code or token is not valid. `failed`: any other wrong answer. */
  readonly reason: 'refused' | 'failed' | 'unreachable'

  constructor(reason: IdentityServiceError['reason'], message: string, options?: ErrorOptions) {
    super(message, options)
    this.reason = reason
  }
}

const MAX_ANSWER_BYTES = 262_144

const upstreamTokens = z.object({
  access_token: z.string().min(1),
  refresh_token: z.string().min(1).optional().catch(undefined),
  expires_in: z.number().positive().optional().catch(undefined),
})

const claimsShape = z.record(z.string(), z.unknown())

/**
 * The identity service of Solace Agent Mesh: `/login`, `/gateway-oauth/exchange`, `/refresh_token` and `/user_info`.
 *
 * @throws GatewayError `CONFIG`
 */
export function identityService(options: OAuthFacadeOptions): IdentityService {
  const { upstreamUrl, provider = 'azure', fetch = globalThis.fetch } = options
  const { upstreamTimeoutMs = 10_000 } = options
  if (upstreamUrl === undefined) {
    const message = 'oauthFacade() needs an identity service: set upstreamUrl or identity'
    throw new GatewayError('CONFIG', message, { path: 'auth.facade.upstreamUrl' })
  }
  const base = secureUrlFrom(upstreamUrl, 'auth.facade.upstreamUrl').href.replace(/\/$/, '')

  const request = async (path: string, init: RequestInit): Promise<unknown> => {
    const signal = AbortSignal.timeout(upstreamTimeoutMs)
    let response: Response
    try {
      // A redirect is not followed: the request holds a credential.
      response = await fetch(`${base}${path}`, { ...init, redirect: 'error', signal })
    } catch (cause) {
      const message = 'The identity service cannot be reached. Check auth.facade.upstreamUrl'
      throw new IdentityServiceError('unreachable', message, { cause })
    }
    return readJson(response)
  }
  const toIdentity = async (answer: unknown, refreshToken?: string): Promise<Identity> => {
    const tokens = upstreamTokens.safeParse(answer)
    if (!tokens.success) throw wrongAnswer('no access token')
    const { access_token, refresh_token = refreshToken, expires_in } = tokens.data
    const headers = { authorization: `Bearer ${access_token}` }
    const user = await request(`/user_info?${queryOf({ provider })}`, { headers })
    const claims = claimsShape.safeParse(user)
    if (!claims.success) throw wrongAnswer('no claims of the user')
    return { claims: claims.data, refreshToken: refresh_token, expiresInSec: expires_in }
  }
  return {
    loginUrl: ({ callback, state }) =>
      `${base}/login?${queryOf({ gateway_uri: callback, state, provider })}`,
    exchange: async (code, callback) => {
      const query = queryOf({ code, gateway_uri: callback })
      return toIdentity(await request(`/gateway-oauth/exchange?${query}`, { method: 'POST' }))
    },
    refresh: async (refreshToken) => {
      const body = JSON.stringify({ refresh_token: refreshToken, provider })
      const headers = { 'content-type': 'application/json' }
      const answer = await request('/refresh_token', { method: 'POST', headers, body })
      return toIdentity(answer, refreshToken)
    },
  }
}

async function readJson(response: Response): Promise<unknown> {
  const { ok, status } = response
  if (!ok) {
    await response.body?.cancel()
    const reason = status === 400 ? 'refused' : 'failed'
    throw new IdentityServiceError(reason, `The identity service answered with status ${status}`)
  }
  try {
    const body = await readBounded(response, MAX_ANSWER_BYTES)
    return JSON.parse(body.toString('utf8'))
  } catch (cause) {
    throw wrongAnswer('no JSON, or too much of it', cause)
  }
}

function wrongAnswer(what: string, cause?: unknown): IdentityServiceError {
  return new IdentityServiceError('failed', `The identity service answered with ${what}`, { cause })
}

function queryOf(values: Record<string, string>): string {
  return new URLSearchParams(values).toString()
}
