/** The scopes of a space-separated list (RFC 6749, section 3.3), each once. */
function scopesOf(list: string | undefined): string[] {
  return [...new Set((list ?? '').split(' ').filter((scope) => scope !== ''))]
}

/** All scopes of all lists, each once, in the order they were first seen; undefined for none. */
export function scopeUnion(...lists: readonly (string | undefined)[]): string | undefined {
  const union = scopesOf(lists.flatMap(scopesOf).join(' ')).join(' ')
  return union === '' ? undefined : union
}

/** Whether both name the same scopes, in any order. */
export function sameScopes(one: string | undefined, other: string | undefined): boolean {
  return scopesOf(one).toSorted().join(' ') === scopesOf(other).toSorted().join(' ')
}

export interface ScopeChoice {
  /** From the challenge of the refusal. */
  readonly challenged: string | undefined
  /** `scopes_supported` of the MCP server's metadata. */
  readonly resourceScopes: readonly string[] | undefined
  /** What the client says of itself. */
  readonly clientScope: string | undefined
  /** In a step-up: what was asked for, or granted, before. */
  readonly before: string | undefined
  /** `scopes_supported` of the authorization server's metadata. */
  readonly serverScopes: readonly string[] | undefined
  /** Whether a refresh token would be used. */
  readonly wantsRefresh: boolean
}

/**
 * The scopes to ask for (2026-07-28, basic/authorization, scope selection): the challenge's, else all of
 * the server's, else what the client asks for, else none. A step-up adds to what was there before.
 * `offline_access` comes along only where the authorization server lists it.
 */
export function chooseScope(choice: ScopeChoice): string | undefined {
  const { challenged, resourceScopes, clientScope, before, serverScopes, wantsRefresh } = choice
  const needed =
    scopeUnion(challenged) ?? scopeUnion(...(resourceScopes ?? [])) ?? scopeUnion(clientScope)
  const scope = scopeUnion(before, needed)
  if (scope === undefined || !wantsRefresh) return scope
  return serverScopes?.includes('offline_access') === true
    ? scopeUnion(scope, 'offline_access')
    : scope
}
