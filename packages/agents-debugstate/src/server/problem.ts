/** What a request failed for. Stable: clients switch on it. PROTOCOL.md says when which of them comes. */
export type ProblemCode =
  | 'BAD_REQUEST' // the path, a header or the body cannot be read
  | 'BAD_AGENT_ID'
  | 'BAD_KEY'
  | 'BAD_VALUE' // not text
  | 'UNAUTHORIZED' // no token, or an unknown one
  | 'FORBIDDEN' // the token is not for this agent, or the host name not for this address
  | 'NOT_FOUND'
  | 'METHOD_NOT_ALLOWED'
  | 'REQUEST_TIMEOUT' // the request came too slowly
  | 'CONFLICT' // the precondition did not hold
  | 'BODY_TOO_LARGE'
  | 'KEY_TOO_LONG'
  | 'HEADERS_TOO_LARGE' // request line and headers
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
  const body = problemBody(code, detail)
  return new Response(JSON.stringify(body), {
    status: body.status,
    headers: { ...PROBLEM_HEADERS, ...headers },
  })
}

export function problemBody(code: ProblemCode, detail: string): Problem {
  return { type: 'about:blank', ...KINDS[code], detail, code }
}

export const PROBLEM_HEADERS: Readonly<Record<string, string>> = {
  'content-type': 'application/problem+json',
  'cache-control': 'no-store',
}

const KINDS: Readonly<Record<ProblemCode, { readonly title: string; readonly status: number }>> = {
  BAD_REQUEST: { title: 'Bad Request', status: 400 },
  BAD_AGENT_ID: { title: 'Bad Request', status: 400 },
  BAD_KEY: { title: 'Bad Request', status: 400 },
  BAD_VALUE: { title: 'Bad Request', status: 400 },
  UNAUTHORIZED: { title: 'Unauthorized', status: 401 },
  FORBIDDEN: { title: 'Forbidden', status: 403 },
  NOT_FOUND: { title: 'Not Found', status: 404 },
  METHOD_NOT_ALLOWED: { title: 'Method Not Allowed', status: 405 },
  REQUEST_TIMEOUT: { title: 'Request Timeout', status: 408 },
  CONFLICT: { title: 'Precondition Failed', status: 412 },
  BODY_TOO_LARGE: { title: 'Content Too Large', status: 413 },
  KEY_TOO_LONG: { title: 'URI Too Long', status: 414 },
  HEADERS_TOO_LARGE: { title: 'Request Header Fields Too Large', status: 431 },
  STORE_FAILED: { title: 'Service Unavailable', status: 503 },
}
