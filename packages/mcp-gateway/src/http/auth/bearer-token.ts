/** Longer ones are not looked at: nothing that is issued comes near. */
const MAX_TOKEN_LENGTH = 16_384

const TOKEN = /^[A-Za-z0-9\-._~+/]+=*$/

/**
 * The token of an `Authorization: Bearer` header (RFC 6750 section 2.1). `none`: there is no such credential;
 * `malformed`: there is something else in its place.
 */
export function bearerTokenFrom(
  headers: Headers,
): { readonly token: string } | 'none' | 'malformed' {
  const header = headers.get('authorization')
  if (header === null) return 'none'
  const [scheme, token, ...rest] = header.trim().split(/ +/)
  if (scheme?.toLowerCase() !== 'bearer') return 'none'
  if (token === undefined || rest.length > 0) return 'malformed'
  if (token.length > MAX_TOKEN_LENGTH || !TOKEN.test(token)) return 'malformed'
  return { token }
}
