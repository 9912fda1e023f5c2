import { isRecord } from '@x/internal'
import type { AuthenticationRequest, Authenticator } from './authenticator.ts'
import { challengeResponse } from './authenticator.ts'
import { mayUse, type Principal } from '../../internal/principal.ts'

export interface ScopeCheck {
  readonly principal: Principal
  readonly auth: Authenticator | undefined
  readonly request: AuthenticationRequest
  /** All tools, also those that the caller may not use. */
  readonly plan: { byName(name: string): Pick<Principal, 'scopes'> | undefined }
}

export interface ScopeRefusal {
  /** Name of the tool whose scopes the caller lacks. */
  readonly tool: string
  readonly response: Response
}

/**
 * Returns 403 if a call in a JSON-RPC body needs scopes that the caller lacks, and names all scopes of the call.
 * Otherwise returns `undefined`. Runs in both eras before dispatch, while the HTTP status is still open
 * (specification 2026-07-28, "Authorization", scope challenges).
 */
export function scopeRefusal(body: unknown, check: ScopeCheck): ScopeRefusal | undefined {
  const { principal, auth, request, plan } = check
  const name = calledTool(body)
  const tool = name === undefined ? undefined : plan.byName(name)
  if (name === undefined || tool === undefined || mayUse(principal, tool)) return undefined
  const { scopes } = tool
  const own = auth?.refuseScopes?.(request, scopes)
  const response = own ?? challengeResponse({ error: 'insufficient_scope', scopes })
  return { tool: name, response }
}

/** Returns the name of the tool that a message calls. */
export function calledTool(body: unknown): string | undefined {
  if (!isRecord(body) || body['method'] !== 'tools/call') return undefined
  const params = body['params']
  const name = isRecord(params) ? params['name'] : undefined
  return typeof name === 'string' ? name : undefined
}
