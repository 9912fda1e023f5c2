/** What a `WWW-Authenticate: Bearer` header says (RFC 6750 section 3, RFC 9728 section 5.1). */
export interface Challenge {
  /** Left out where the request held no credential at all. */
  readonly error?: 'invalid_request' | 'invalid_token' | 'insufficient_scope' | undefined
  /** For people. Says nothing about the credential. */
  readonly description?: string | undefined
  /** All that are needed. */
  readonly scopes?: readonly string[] | undefined
  /** Where the RFC 9728 document is. */
  readonly resourceMetadata?: string | undefined
}

const STATUS = { invalid_request: 400, invalid_token: 401, insufficient_scope: 403 } as const

/** The answer that refuses a request and says how to do better. */
export function challengeResponse(challenge: Challenge): Response {
  const { error, description } = challenge
  const body = { error: error ?? 'invalid_token', error_description: description }
  return Response.json(body, {
    status: error ? STATUS[error] : 401,
    headers: { 'www-authenticate': challengeHeader(challenge), 'cache-control': 'no-store' },
  })
}

function challengeHeader(challenge: Challenge): string {
  const { error, description, scopes = [], resourceMetadata } = challenge
  const parameters = [
    ['error', error],
    ['error_description', description],
    ['scope', scopes.length > 0 ? scopes.join(' ') : undefined],
    ['resource_metadata', resourceMetadata],
  ]
  const shown = parameters.flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}="${quotable(value)}"`],
  )
  return ['Bearer', shown.join(', ')].join(' ').trimEnd()
}

/** The caller may be right, but whoever could tell is not there: no 401, which would make clients throw good tokens away. */
export function cannotVerify(retryAfterSec: number): Response {
  return Response.json(
    { error: 'temporarily_unavailable' },
    { status: 503, headers: { 'retry-after': `${retryAfterSec}`, 'cache-control': 'no-store' } },
  )
}

/** Nothing that would end the quoted string, or the header. */
function quotable(text: string): string {
  return text.replaceAll(/[^\x20-\x7e]|["\\]/g, '')
}
