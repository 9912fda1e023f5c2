import { check, type Checks } from '@x/internal'
import { assertGatewayOptions, readBounded, secureUrlFrom } from '@x/mcp-gateway/adapter'
import { z } from 'zod'
import { IdentityServiceError, type Identity, type IdentityService } from './identity-service.ts'

const MAX_ANSWER_BYTES = 262_144

const upstreamTokens = z.object({
  access_token: z.string().min(1),
  refresh_token: z.string().min(1).optional().catch(undefined),
  expires_in: z.number().positive().optional().catch(undefined),
})

const claimsShape = z.record(z.string(), z.unknown())

export interface SolaceIdentityOptions {
  /** URL of the identity service of Solace Agent Mesh. */
  readonly url: string
  /** Name that this service gives to its provider of sign-in pages, such as `azure`. */
  readonly provider: string
  /** Sends the requests. @default globalThis.fetch */
  readonly fetch?: typeof globalThis.fetch | undefined
}

/** Limit of one request to this service: a person waits for it. Milliseconds. */
const TIMEOUT_MS = 10_000

const optionChecks: Checks<SolaceIdentityOptions> = {
  url: check.required(check.string),
  provider: check.required(check.text),
  fetch: check.func,
}

/**
 * The identity service of Solace Agent Mesh: `/login`, `/gateway-oauth/exchange`, `/refresh_token` and `/user_info`.
 *
 * @throws GatewayError `CONFIG`
 * @example
 * ```ts
 * import { solaceIdentity } from '@x/mcp-gateway-oauth'
 *
 * const identity = solaceIdentity({ url: 'https://identity.example', provider: 'azure' })
 * ```
 */
export function solaceIdentity(options: SolaceIdentityOptions): IdentityService {
  assertGatewayOptions('solaceIdentity()', options, optionChecks)
  const { provider, fetch = globalThis.fetch } = options
  const base = secureUrlFrom(options.url, 'auth.facade.identity.url').href.replace(/\/$/, '')

  const request = async (path: string, init: RequestInit): Promise<unknown> => {
    const signal = AbortSignal.timeout(TIMEOUT_MS)
    let response: Response
    try {
      // A redirect is not followed: the request holds a credential.
      response = await fetch(`${base}${path}`, { ...init, redirect: 'error', signal })
    } catch (cause) {
      const message = 'The identity service cannot be reached. Check auth.facade.identity.url'
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
