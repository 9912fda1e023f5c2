/** Who is calling. Comes only from a credential that was verified, never from what a client says of itself. */
export interface Principal {
  /** Stable: `issuer|claim`, the name of a static token, or that of everybody. Part of every key that keeps callers apart. */
  readonly id: string
  /** What the credential allows; compared with what a tool needs. */
  readonly scopes: readonly string[]
  /** Nobody was verified. Such callers share one id, and are kept apart by handles that cannot be guessed. */
  readonly isAnonymous: boolean
  /** Of the token, for agents that need more than the id. Never logged. */
  readonly claims: Readonly<Record<string, unknown>>
}

/** Whether a principal may do what needs this scope. `*` is everything. Fails closed. */
export function isAllowed(principal: Principal, scope: string): boolean {
  return principal.scopes.includes(scope) || principal.scopes.includes('*')
}
