/** What a request failed for. Stable: clients switch on it. */
export type ProblemCode =
  | 'BAD_REQUEST' // the path, a header or the body cannot be read
  | 'BAD_AGENT_ID'
  | 'BAD_KEY'
  | 'UNAUTHORIZED' // no token, or an unknown one
  | 'FORBIDDEN' // the token is not for this agent, or the host name not for this address
  | 'NOT_FOUND'
  | 'METHOD_NOT_ALLOWED'
  | 'CONFLICT' // the precondition did not hold
  | 'BODY_TOO_LARGE'
  | 'KEY_TOO_LONG'
  | 'STORE_FAILED'

/** Body of an error answer: RFC 9457, with `code` as an extension. */
export interface Problem {
  readonly type: 'about:blank'
  readonly title: string
  readonly status: number
  /** What was wrong, and the rule it broke. */
  readonly detail: string
  readonly code: ProblemCode
}

/** An error answer. Holds nothing of values and tokens. */
export function problem(
  code: ProblemCode,
  detail: string,
  headers: Readonly<Record<string, string>> = {},
): Response {
  const { status, title } = KINDS[code]
  const body: Problem = { type: 'about:blank', title, status, detail, code }
  return new Response(JSON.stringify(body), {
    status,
    headers: {
      'content-type': 'application/problem+json',
      'cache-control': 'no-store',
      ...headers,
    },
  })
}

const KINDS: Readonly<Record<ProblemCode, { readonly status: number; readonly title: string }>> = {
  BAD_REQUEST: { status: 400, title: 'Bad Request' },
  BAD_AGENT_ID: { status: 400, title: 'Bad Request' },
  BAD_KEY: { status: 400, title: 'Bad Request' },
  UNAUTHORIZED: { status: 401, title: 'Unauthorized' },
  FORBIDDEN: { status: 403, title: 'Forbidden' },
  NOT_FOUND: { status: 404, title: 'Not Found' },
  METHOD_NOT_ALLOWED: { status: 405, title: 'Method Not Allowed' },
  CONFLICT: { status: 412, title: 'Precondition Failed' },
  BODY_TOO_LARGE: { status: 413, title: 'Content Too Large' },
  KEY_TOO_LONG: { status: 414, title: 'URI Too Long' },
  STORE_FAILED: { status: 503, title: 'Service Unavailable' },
}
