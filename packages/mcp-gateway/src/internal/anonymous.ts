import type { Principal } from './principal.ts'

/** Everybody, where nobody is verified: one principal, who may do everything. */
export function anonymousPrincipal(id = 'mcp_user'): Principal {
  return { id, scopes: ['*'], isAnonymous: true, claims: {} }
}
