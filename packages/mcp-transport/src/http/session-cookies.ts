import { BoundedMap } from '@x/internal'
import type { ResponseHeaders } from '../headers.ts'

/** Older sessions of a transport have been replaced. */
const MAX_SESSIONS = 8
const MAX_COOKIES = 20
const MAX_BYTES = 4096

interface Cookie {
  readonly value: string
  /** Milliseconds since 1970. */
  readonly expiresAt: number
}

/**
 * Cookies of a balancer that sends the requests of one session to one replica (mcp-remote#168). They belong to the
 * session that they came with: they are sent with its requests to the same origin, and to nothing else. They are kept in
 * memory only, and appear in no event and no error.
 */
export class SessionCookies {
  readonly #ofSessions: Map<string, Map<string, Cookie>> = new BoundedMap(MAX_SESSIONS)

  /** Keeps the cookies of a response (RFC 6265, section 5.2). */
  take(sessionId: string | undefined, { origin, path }: Target, headers: ResponseHeaders): void {
    const given = headers['set-cookie']
    if (sessionId === undefined || given === undefined) return
    const cookies = this.#ofSessions.get(sessionId) ?? new Map<string, Cookie>()
    this.#ofSessions.set(sessionId, cookies)
    for (const text of typeof given === 'string' ? [given] : given) {
      const cookie = parseCookie(text)
      if (cookie === undefined) continue
      const { name, value, attributes } = cookie
      const isForPath = isBelow(path, attributes.get('path'))
      if (!isForPath || (attributes.has('secure') && !origin.startsWith('https:'))) continue
      const expiresAt = expiryOf(attributes)
      cookies.delete(name)
      if (expiresAt > Date.now() && cookies.size < MAX_COOKIES)
        cookies.set(name, { value, expiresAt })
    }
  }

  /** Returns the value of the header `cookie`, or undefined if there is none. */
  headerFor(sessionId: string | undefined): string | undefined {
    const cookies = sessionId === undefined ? undefined : this.#ofSessions.get(sessionId)
    if (cookies === undefined) return undefined
    const now = Date.now()
    const pairs = [...cookies]
      .filter(([, { expiresAt }]) => expiresAt > now)
      .map(([name, { value }]) => `${name}=${value}`)
    return pairs.length === 0 ? undefined : pairs.join('; ')
  }
}

interface Target {
  readonly origin: string
  readonly path: string
}

function parseCookie(text: string) {
  const [pair = '', ...rest] = text.split(';')
  const [, name, value] = /^\s*([!#$%&'*+.^_`|~0-9A-Za-z-]+)=([\x21-\x7E]*?)\s*$/.exec(pair) ?? []
  if (name === undefined || value === undefined || text.length > MAX_BYTES) return undefined
  const attributes = new Map(
    rest.map((part) => {
      const [key = '', ...of] = part.split('=')
      return [key.trim().toLowerCase(), of.join('=').trim()] as const
    }),
  )
  return { name, value, attributes }
}

/** A cookie without an expiry lives as long as its session. `Max-Age` counts before `Expires`. */
function expiryOf(attributes: ReadonlyMap<string, string>): number {
  const maxAge = attributes.get('max-age')
  if (maxAge !== undefined && /^-?\d+$/.test(maxAge)) return Date.now() + Number(maxAge) * 1000
  const expires = Date.parse(attributes.get('expires') ?? '')
  return Number.isNaN(expires) ? Number.POSITIVE_INFINITY : expires
}

/** Path matching of RFC 6265, section 5.1.4. The default path is taken as `/`, because there is one endpoint. */
function isBelow(path: string, given = '/'): boolean {
  if (!given.startsWith('/') || given === '/') return true
  const [own = ''] = path.split('?')
  return own === given || own.startsWith(given.endsWith('/') ? given : `${given}/`)
}
