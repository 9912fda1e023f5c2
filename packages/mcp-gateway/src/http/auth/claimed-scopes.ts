/** Scopes as tokens hold them: words in a string (RFC 9068), or a list of strings (`scp`). Anything else: none. */
export function claimedScopes(
  claims: Readonly<Record<string, unknown>>,
  claim?: string,
): readonly string[] {
  const value = claim === undefined ? (claims['scope'] ?? claims['scp']) : claims[claim]
  if (typeof value === 'string') return value.split(' ').filter((scope) => scope !== '')
  if (!Array.isArray(value)) return []
  return value.filter((scope): scope is string => typeof scope === 'string' && scope !== '')
}
