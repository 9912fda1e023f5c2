import { isLoopback } from '@x/internal'

const MAX_LENGTH = 2048

/** Whether codes may be sent there: listed exactly, or an http server of the user's own machine (RFC 8252 section 7.3). */
export function isAllowedRedirect(uri: string, allowed: readonly string[]): boolean {
  return isPlain(uri) && (allowed.includes(uri) || isLoopbackRedirect(uri))
}

/** Whether a request names a URI of the client's: to the letter. */
export function isSameRedirect(uri: string, registered: readonly string[]): boolean {
  return registered.includes(uri)
}

/** The same, but on loopback the port may differ: a document cannot know which one is free (RFC 8252 section 7.3). */
export function isSameButPort(uri: string, registered: readonly string[]): boolean {
  if (registered.includes(uri)) return true
  if (!isPlain(uri) || !isLoopbackRedirect(uri)) return false
  return registered.some((each) => isLoopbackRedirect(each) && portless(each) === portless(uri))
}

/** Where the browser goes, with the answer in the query. */
export function redirectTo(
  uri: string,
  answer: Readonly<Record<string, string | undefined>>,
): Response {
  const url = new URL(uri)
  for (const [name, value] of Object.entries(answer)) {
    if (value !== undefined) url.searchParams.append(name, value)
  }
  return new Response(null, { status: 302, headers: { location: url.href, ...UNSEEN } })
}

/** Neither caches nor the next page learn of codes in URLs. */
const UNSEEN = { 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' }

/** No spelling that two parsers could read in two ways; no fragment (RFC 6749 section 3.1.2). */
function isPlain(uri: string): boolean {
  return (
    uri.length <= MAX_LENGTH &&
    /^[\x21-\x7e]+$/.test(uri) &&
    !/[\\#]/.test(uri) &&
    URL.canParse(uri)
  )
}

function isLoopbackRedirect(uri: string): boolean {
  if (!URL.canParse(uri)) return false
  const { protocol, hostname, username, password } = new URL(uri)
  return protocol === 'http:' && username === '' && password === '' && isLoopback(hostname)
}

function portless(uri: string): string {
  const url = new URL(uri)
  url.port = ''
  return url.href
}
