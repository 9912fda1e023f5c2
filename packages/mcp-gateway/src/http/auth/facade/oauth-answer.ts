/** Why a request was refused (RFC 6749, RFC 7591, RFC 8707). Clients learn no more than this. */
export type OAuthErrorName =
  | 'invalid_request'
  | 'invalid_client'
  | 'invalid_grant'
  | 'invalid_target'
  | 'invalid_redirect_uri'
  | 'invalid_client_metadata'
  | 'unsupported_grant_type'
  | 'unsupported_response_type'
  | 'access_denied'
  | 'server_error'
  | 'temporarily_unavailable'

/** An answer that nobody keeps. */
export function oauthAnswer(
  status: number,
  body: object,
  headers: Readonly<Record<string, string>> = {},
): Response {
  return Response.json(body, { status, headers: { ...headers, 'cache-control': 'no-store' } })
}

export function oauthError(error: OAuthErrorName, status = 400): Response {
  return oauthAnswer(status, { error }, status === 503 ? { 'retry-after': RETRY_AFTER_SEC } : {})
}

/** For whoever comes while something behind is away. */
const RETRY_AFTER_SEC = '5'

/** 429, for whoever tries too often. */
export function tooManyAttempts(waitMs: number): Response {
  const headers = { 'retry-after': `${Math.ceil(waitMs / 1000)}` }
  return oauthAnswer(429, { error: 'temporarily_unavailable' }, headers)
}

/** Values by name; `undefined` if one of them stands there twice (RFC 6749 section 3.1). */
export function singleValues(
  all: URLSearchParams,
): Readonly<Record<string, string | undefined>> | undefined {
  const values = new Map<string, string>()
  for (const [name, value] of all) {
    if (values.has(name)) return undefined
    if (value !== '') values.set(name, value) // without a value is as good as not there
  }
  return Object.fromEntries(values)
}
