import { isRecord } from '@x/internal'
import type { AuthenticationRequest, Authenticator } from './authenticator.ts'
import { challengeResponse } from './authenticator.ts'
import { type Guarded, mayUse, type Principal } from '../../internal/principal.ts'

export interface ScopeCheck {
  readonly principal: Principal
  readonly auth: Authenticator | undefined
  readonly request: AuthenticationRequest
  /** The tool of this name, whoever may use it. */
  readonly toolByName: (name: string) => Guarded | undefined
}

export interface ScopeRefusal {
  /** Name of the tool whose scopes the caller lacks. */
  readonly tool: string
  readonly response: Response
}

/**
 * The 403 that a JSON-RPC body gets because one of its calls needs scopes that the caller lacks; `undefined`: it
 * may go on. For both eras, before anything is dispatched: later no HTTP status can be chosen any more
 * (specification 2026-07-28, "Authorization", scope challenges). It names all scopes that the call needs.
 */
export function scopeRefusal(body: unknown, check: ScopeCheck): ScopeRefusal | undefined {
  const { principal, auth, request, toolByName } = check
  for (const name of calledTools(body)) {
    const tool = toolByName(name)
    if (tool === undefined || mayUse(principal, tool)) continue
    const { scopes } = tool
    const own = auth?.refuseScopes?.(request, scopes)
    const response = own ?? challengeResponse({ error: 'insufficient_scope', scopes })
    return { tool: name, response }
  }
  return undefined
}

/** Names of the tools that a message, or a batch of them (2025-03-26), calls. */
export function calledTools(body: unknown): readonly string[] {
  if (Array.isArray(body)) return body.flatMap(calledTool)
  return calledTool(body)
}

function calledTool(message: unknown): readonly string[] {
  if (!isRecord(message) || message['method'] !== 'tools/call') return []
  const params = message['params']
  const name = isRecord(params) ? params['name'] : undefined
  return typeof name === 'string' ? [name] : []
}
