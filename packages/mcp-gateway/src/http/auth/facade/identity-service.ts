import { z } from 'zod'

import { readBounded } from '../../../internal/bounded-response.ts'
import { secureUrlFrom } from '../secure-url.ts'

/** Who somebody is, as the identity service says, and how to ask it again. */
export interface Identity {
  readonly claims: Readonly<Record<string, unknown>>
  /** Of the identity service; it never leaves the gateway. */
  readonly refreshToken?: string | undefined
  /** How long this may be relied on. */
  readonly expiresInSec?: number | undefined
}

/** Signs people in for the facade. What it issues stays between it and the gateway. */
export interface IdentityService {
  /** Where a browser goes to sign in; it comes back to `callback` with `code` and this `state`. */
  loginUrl(request: { readonly callback: string; readonly state: string }): string
  /** @throws IdentityServiceError */
  exchange(code: string, callback: string): Promise<Identity>
  /** @throws IdentityServiceError */
  refresh(refreshToken: string): Promise<Identity>
}

export class IdentityServiceError extends Error {
  override readonly name = 'IdentityServiceError'
  /** `refused`: it answered 400, so the code or token is not good. `failed`: any other answer that is no success. */
  readonly reason: 'refused' | 'failed' | 'unreachable'

  constructor(
    reason: 'refused' | 'failed' | 'unreachable',
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options)
    this.reason = reason
  }
}

export interface IdentityServiceOptions {
  readonly upstreamUrl: string
  /** Which of its providers signs in. @default 'azure' */
  readonly provider?: string | undefined
  /** Of one request to it. @default 10_000 */
  readonly timeoutMs?: number | undefined
  /** @default globalThis.fetch */
  readonly fetch?: typeof globalThis.fetch | undefined
}

const MAX_ANSWER_BYTES = 262_144

interface UpstreamTokens {
  readonly access_token: string
  readonly refresh_token?: string | undefined
  readonly expires_in?: number | undefined
}

const upstreamTokens: z.ZodType<UpstreamTokens> = z.object({
  access_token: z.string().min(1),
  refresh_token: z.string().min(1).optional().catch(undefined),
  expires_in: z.number().positive().optional().catch(undefined),
})

/**
 * The identity service of Solace Agent Mesh: `/login`, `/gateway-oauth/exchange`, `/refresh_token` and `/user_info`.
 *
 * @throws GatewayError `CONFIG`
 */
export function identityService(options: IdentityServiceOptions): IdentityService {
  const { upstreamUrl, provider = 'azure', timeoutMs = 10_000, fetch = globalThis.fetch } = options
  const base = secureUrlFrom(upstreamUrl, 'auth.facade.upstreamUrl').href.replace(/\/$/, '')

  const ask = async (path: string, init: RequestInit): Promise<unknown> => {
    const response = await reach(fetch, `${base}${path}`, { ...init, timeoutMs })
    return jsonOf(response)
  }
  const identityOf = async (answer: unknown, before?: string): Promise<Identity> => {
    const tokens = upstreamTokens.safeParse(answer)
    if (!tokens.success) throw new IdentityServiceError('failed', 'It gave no access token')
    const { access_token, refresh_token = before, expires_in } = tokens.data
    const claims = z.record(z.string(), z.unknown()).safeParse(
      await ask(`/user_info?${queryOf({ provider })}`, {
        headers: { authorization: `Bearer ${access_token}` },
      }),
    )
    if (!claims.success) throw new IdentityServiceError('failed', 'It did not say who somebody is')
    return { claims: claims.data, refreshToken: refresh_token, expiresInSec: expires_in }
  }
  return {
    loginUrl: ({ callback, state }) =>
      `${base}/login?${queryOf({ gateway_uri: callback, state, provider })}`,
    exchange: async (code, callback) => {
      const query = queryOf({ code, gateway_uri: callback })
      return identityOf(await ask(`/gateway-oauth/exchange?${query}`, { method: 'POST' }))
    },
    refresh: async (refreshToken) => {
      const body = JSON.stringify({ refresh_token: refreshToken, provider })
      const headers = { 'content-type': 'application/json' }
      return identityOf(
        await ask('/refresh_token', { method: 'POST', headers, body }),
        refreshToken,
      )
    },
  }
}

async function reach(
  fetch: typeof globalThis.fetch,
  url: string,
  { timeoutMs, ...init }: RequestInit & { readonly timeoutMs: number },
): Promise<Response> {
  try {
    return await fetch(url, { ...init, redirect: 'error', signal: AbortSignal.timeout(timeoutMs) })
  } catch (cause) {
    throw new IdentityServiceError('unreachable', 'It cannot be reached', { cause })
  }
}

async function jsonOf(response: Response): Promise<unknown> {
  const { ok, status } = response
  if (!ok) {
    await response.body?.cancel()
    throw new IdentityServiceError(status === 400 ? 'refused' : 'failed', `It answered ${status}`)
  }
  try {
    const body = await readBounded(response, MAX_ANSWER_BYTES)
    return JSON.parse(body.toString('utf8'))
  } catch (cause) {
    throw new IdentityServiceError('failed', 'It answered with something else', { cause })
  }
}

function queryOf(values: Record<string, string>): string {
  return new URLSearchParams(values).toString()
}
