import { AuthError } from '../auth-error.ts'

/**
 * A URL that credentials may be sent to: https, or http on this machine if the MCP server is on it too
 * (OAuth 2.1, section 1.5). So no server elsewhere makes us ask services of this machine.
 *
 * @throws AuthError `INSECURE_URL`
 */
export function secureUrl(input: string | URL, serverUrl: URL): URL {
  if (!URL.canParse(String(input)))
    throw new AuthError('INVALID_RESPONSE', 'Metadata holds a broken URL')
  const url = new URL(input)
  const isLocal = url.protocol === 'http:' && isLoopback(url) && isLoopback(serverUrl)
  if (url.protocol === 'https:' || isLocal) return url
  throw new AuthError(
    'INSECURE_URL',
    `${url.origin === 'null' ? url.protocol : url.origin} is used for authorization, but it is neither https nor on this machine`,
  )
}

export function isLoopback({ hostname }: URL): boolean {
  return (
    hostname === 'localhost' ||
    hostname.endsWith('.localhost') ||
    hostname === '[::1]' ||
    /^127\.\d+\.\d+\.\d+$/.test(hostname)
  )
}
