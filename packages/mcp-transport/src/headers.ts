/** What the request is for, when headers are asked for it. */
export interface RequestContext {
  readonly httpMethod: 'POST' | 'GET' | 'DELETE'
  /** JSON-RPC method of the message in the body, if there is one. */
  readonly rpcMethod?: string | undefined
}

/** Asked before every request, so that a rotated token is used at once. */
export type HeadersFunction = (
  request: RequestContext,
) => Readonly<Record<string, string>> | Promise<Readonly<Record<string, string>>>

export type HeadersOption = Readonly<Record<string, string>> | HeadersFunction

const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
const UNSAFE_VALUE = /[^\t\x20-\x7E\x80-\xFF]/

/** What is shorter is no secret, and may be part of any word. */
const SECRET_LENGTH = 8

const OURS = new Set([
  'accept',
  'accept-encoding',
  'connection',
  'content-length',
  'content-type',
  'expect',
  'host',
  'keep-alive',
  'last-event-id',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

/**
 * The caller's headers as a flat list for undici. What belongs to the transport (content type, accept,
 * `mcp-*`, hop-by-hop headers) is left out in any spelling, so that it is never doubled or replaced.
 *
 * @throws TypeError for a name or value that cannot stand in a request.
 */
export function userHeaderList(headers: Readonly<Record<string, string>>): string[] {
  const list: string[] = []
  for (const [name, value] of Object.entries(headers)) {
    if (!TOKEN.test(name)) throw new TypeError(`Header name ${JSON.stringify(name)} is not a token`)
    if (typeof value !== 'string' || UNSAFE_VALUE.test(value)) {
      throw new TypeError(
        `Header "${name}" has a value with characters that no header may hold (line breaks, control or non-Latin characters)`,
      )
    }
    const lower = name.toLowerCase()
    if (!isOurs(lower)) list.push(lower, value)
  }
  return list
}

/**
 * What a server said, without the values of the caller's headers in it, which may be secrets: servers
 * like to repeat the token that they do not accept. Takes out whole values, and their longer words.
 */
export function withoutHeaderValues(text: string, list: readonly string[]): string {
  const values = list.filter((_part, index) => index % 2 === 1 && !isOurs(list[index - 1] ?? ''))
  const secrets = values
    .flatMap((value) => [value, ...value.split(/[\s,;=]+/)])
    .filter((part) => part.length >= SECRET_LENGTH)
    .toSorted((a, b) => b.length - a.length) // so that none is left in part
  return secrets.reduce((rest, secret) => rest.replaceAll(secret, '[removed]'), text)
}

/** A flat list without one header, whose name is given in lower case. */
export function withoutHeader(list: readonly string[], name: string): string[] {
  return list.filter((_part, index) => list[index - (index % 2)] !== name)
}

function isOurs(lowerName: string): boolean {
  return OURS.has(lowerName) || lowerName.startsWith('mcp-')
}

/** Response headers as undici gives them: names in lower case. */
export type ResponseHeaders = Readonly<Record<string, string | readonly string[] | undefined>>

/** The first value of a header; names are lower-case. */
export function headerValue(headers: ResponseHeaders, name: string): string | undefined {
  const value = headers[name]
  return typeof value === 'string' ? value : value?.[0]
}

/** `application/json` of `Application/JSON; charset=utf-8`. */
export function mediaType(headers: ResponseHeaders): string {
  const value = headerValue(headers, 'content-type') ?? ''
  const end = value.indexOf(';')
  return (end === -1 ? value : value.slice(0, end)).trim().toLowerCase()
}

/** `Retry-After` in milliseconds, from seconds or a date (RFC 9110, section 10.2.3). */
export function retryAfterMs(
  headers: ResponseHeaders,
  now: () => number = Date.now,
): number | undefined {
  const value = headerValue(headers, 'retry-after')?.trim()
  if (value === undefined) return undefined
  if (/^\d{1,9}$/.test(value)) return Number(value) * 1000
  const date = Date.parse(value)
  return Number.isNaN(date) ? undefined : Math.max(0, date - now())
}

/** Of every POST (2025-11-25, transports, "Sending Messages to the Server"), as a flat list. */
export const POST_HEADERS: readonly string[] = [
  'content-type',
  'application/json',
  'accept',
  'application/json, text/event-stream',
]
