/** As long as those that the gateway makes. */
const LEAST_CHARS = 26

/**
 * Whether a scope is one that nobody guesses. Callers without a name share one; what is kept for them lies under a
 * scope that only who was told it can name.
 */
export function isScopeHandle(scope: string | undefined): scope is string {
  return scope !== undefined && scope.length >= LEAST_CHARS
}
