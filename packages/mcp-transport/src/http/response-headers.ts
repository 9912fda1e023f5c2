import type { ResponseHeaders } from './exchange.ts'

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
