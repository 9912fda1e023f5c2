/** Describes the request that headers are needed for. */
export interface RequestContext {
  readonly httpMethod: 'POST' | 'GET' | 'DELETE'
  /** JSON-RPC method of the message in the body, if there is one. */
  readonly rpcMethod: string | undefined
}

/** Returns headers. Called before every request, so that a rotated token is used immediately. */
type HeadersFunction = (
  request: RequestContext,
) => Readonly<Record<string, string>> | Promise<Readonly<Record<string, string>>>

export type HeadersOption = Readonly<Record<string, string>> | HeadersFunction

/** A token of HTTP (RFC 9110, 5.6.2), such as the name of a header. */
export const TOKEN: RegExp = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
const UNSAFE_VALUE = /[^\t\x20-\x7E\x80-\xFF]/

/** Shorter values are not treated as secrets: they may occur in any text. */
export const SECRET_LENGTH = 8

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
 * Converts the user's headers to a flat list for undici. Leaves out headers that belong to the transport
 * (content type, accept, `mcp-*`, hop-by-hop headers), in any spelling.
 *
 * @throws TypeError for a name or value that is not allowed in a request.
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
 * Removes the values of the user's headers from a text of the server, because they may be secrets: some servers
 * repeat a token that they refuse. Removes whole values and their longer words.
 */
export function withoutHeaderValues(text: string, list: readonly string[]): string {
  const values = list.filter((_part, index) => index % 2 === 1 && !isOurs(list[index - 1] ?? ''))
  const secrets = values
    .flatMap((value) => [value, ...value.split(/[\s,;=]+/)])
    .filter((part) => part.length >= SECRET_LENGTH)
    .toSorted((a, b) => b.length - a.length) // longest first, so that no part of a secret remains
  return secrets.reduce((rest, secret) => rest.replaceAll(secret, '[removed]'), text)
}

/** Adds headers to a flat list. They replace those of the same name. */
export function withHeaders(list: readonly string[], added: readonly string[]): string[] {
  const names = new Set(added.filter((_part, index) => index % 2 === 0))
  return [...list.filter((_part, index) => !names.has(list[index - (index % 2)] ?? '')), ...added]
}

/** Removes one header from a flat list. `name` is in lower case. */
export function withoutHeader(list: readonly string[], name: string): string[] {
  return list.filter((_part, index) => list[index - (index % 2)] !== name)
}

function isOurs(lowerName: string): boolean {
  return OURS.has(lowerName) || lowerName.startsWith('mcp-')
}

/** Response headers as undici gives them: names in lower case. */
export type ResponseHeaders = Readonly<Record<string, string | readonly string[] | undefined>>

/** Returns the first value of a header. `name` is in lower case. */
export function headerValue(headers: ResponseHeaders, name: string): string | undefined {
  const value = headers[name]
  return typeof value === 'string' ? value : value?.[0]
}

/** Returns the media type without parameters, in lower case, such as `application/json`. */
export function mediaType(headers: ResponseHeaders): string {
  const value = headerValue(headers, 'content-type') ?? ''
  const end = value.indexOf(';')
  return (end === -1 ? value : value.slice(0, end)).trim().toLowerCase()
}

/** A date has a time of day in each of its forms. `Date.parse()` reads other texts with a number as dates, too. */
const TIME_OF_DAY = /\d:\d\d/

/**
 * Parses `Retry-After` (seconds or a date) into milliseconds (RFC 9110, section 10.2.3). Accepts fractions of a second,
 * which some servers send. Returns undefined for any other value.
 */
export function retryAfterMs(
  headers: ResponseHeaders,
  now: () => number = Date.now,
): number | undefined {
  const value = headerValue(headers, 'retry-after')?.trim()
  if (value === undefined) return undefined
  if (/^\d{1,9}(\.\d+)?$/.test(value)) return Math.ceil(Number(value) * 1000)
  const date = TIME_OF_DAY.test(value) ? Date.parse(value) : NaN
  return Number.isNaN(date) ? undefined : Math.max(0, date - now())
}

/** Returns the part of an error message that says when the server takes the request again. Empty for no delay. */
export function sayDelay(delayMs = 0): string {
  return delayMs === 0 ? '' : `, and asks to wait ${Math.ceil(delayMs / 1000)} s`
}

/** Headers of every POST, as a flat list (2025-11-25, transports, "Sending Messages to the Server"). */
export const POST_HEADERS: readonly string[] = [
  'content-type',
  'application/json',
  'accept',
  'application/json, text/event-stream',
]
