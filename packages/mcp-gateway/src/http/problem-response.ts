import { GatewayError } from '../errors.ts'
import type { GatewayErrorCode } from '../errors.ts'

/** What went wrong, for people and programs. */
export function problemResponse(status: number, code: string, message: string): Response {
  const headers = new Headers({ 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' })
  if (status === 503) headers.set('retry-after', '1')
  return Response.json({ error: code, message }, { status, headers })
}

/** @throws whatever is none of our own errors */
export function problemResponseFrom(error: unknown): Response {
  if (!GatewayError.is(error)) throw error
  // What is away, and where it is, is for the log.
  const message = AWAY.has(error.code) ? AWAY_TEXT : error.message
  return problemResponse(STATUS[error.code] ?? 500, error.code, message)
}

const AWAY: ReadonlySet<GatewayErrorCode> = new Set(['CLOSED', 'CONFIG', 'LISTEN', 'UNAVAILABLE'])
const AWAY_TEXT = 'Files cannot be reached now. Try again in a moment.'

const STATUS: Readonly<Partial<Record<GatewayErrorCode, number>>> = {
  CLOSED: 503,
  UNAVAILABLE: 503,
  LIMIT: 413,
  QUOTA: 507,
  NOT_FOUND: 404,
}
