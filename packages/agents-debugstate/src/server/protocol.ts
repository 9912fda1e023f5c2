// The parts of PROTOCOL.md that need no server: names, preconditions and error answers.
import { HTTPException } from 'hono/http-exception'

/** Status and title by the code of a problem. */
const STATUS = {
  BAD_REQUEST: [400, 'Bad Request'], // the path, a header or the body cannot be read
  BAD_AGENT_ID: [400, 'Bad Request'],
  BAD_KEY: [400, 'Bad Request'],
  BAD_VALUE: [400, 'Bad Request'], // not text
  UNAUTHORIZED: [401, 'Unauthorized'], // no token, or an unknown one
  FORBIDDEN: [403, 'Forbidden'], // the token is not for this agent, or the host name is not loopback
  NOT_FOUND: [404, 'Not Found'],
  METHOD_NOT_ALLOWED: [405, 'Method Not Allowed'],
  REQUEST_TIMEOUT: [408, 'Request Timeout'], // the request arrived too slowly
  CONFLICT: [412, 'Precondition Failed'], // the precondition did not hold
  BODY_TOO_LARGE: [413, 'Content Too Large'],
  KEY_TOO_LONG: [414, 'URI Too Long'],
  HEADERS_TOO_LARGE: [431, 'Request Header Fields Too Large'], // request line and headers
  STORE_FAILED: [503, 'Service Unavailable'],
} as const

/** Why a request failed. Stable: clients switch on it. PROTOCOL.md explains each code. */
export type ProblemCode = keyof typeof STATUS

/** Body of an error answer: RFC 9457, with `code` as an extension. */
export interface Problem {
  readonly type: 'about:blank'
  readonly title: string
  readonly status: number
  /** The error, and the rule that the request broke. */
  readonly detail: string
  readonly code: ProblemCode
}

/** Creates an error answer. It contains no values and no tokens. */
export function createProblem(
  code: ProblemCode,
  detail: string,
  headers: Readonly<Record<string, string>> = {},
): Response {
  const body = createProblemBody(code, detail)
  return new Response(JSON.stringify(body), {
    status: body.status,
    headers: { ...PROBLEM_HEADERS, ...headers },
  })
}

/** Creates the exception for a request that breaks a rule. hono answers the request with its response. */
export function createRefusal(
  code: ProblemCode,
  detail: string,
  headers?: Readonly<Record<string, string>>,
): HTTPException {
  const res = createProblem(code, detail, headers)
  return new HTTPException(STATUS[code][0], { res, message: detail })
}

export function createProblemBody(code: ProblemCode, detail: string): Problem {
  const [status, title] = STATUS[code]
  return { type: 'about:blank', title, status, detail, code }
}

export const PROBLEM_HEADERS: Readonly<Record<string, string>> = {
  'content-type': 'application/problem+json',
  'cache-control': 'no-store',
}

/** The resource of a path: one value, or all values of an agent if `key` is `undefined`. */
export interface Resource {
  readonly agentId: string
  readonly key: string | undefined
}

/**
 * Parses `{agentId}` or `{agentId}/{key}` of a URL. The key is one segment, and is decoded exactly once: `%2F` is
 * a slash in the key, `%252F` is the text `%2F`.
 *
 * @throws HTTPException for a name that breaks its rule
 */
export function parseResource(path: string): Resource {
  const [agentSegment = '', keySegment, ...rest] = path.split('/')
  const agentId = decodeSegment(agentSegment)
  if (agentId === undefined || !isAgentId(agentId)) {
    throw createRefusal('BAD_AGENT_ID', AGENT_ID_RULE)
  }
  if (keySegment === undefined) return { agentId, key: undefined }
  const key = rest.length > 0 ? undefined : decodeSegment(keySegment)
  if (!key || CONTROL_CHARACTER.test(key)) throw createRefusal('BAD_KEY', KEY_RULE)
  if (Buffer.byteLength(key) > MAX_KEY_BYTES) {
    throw createRefusal('KEY_TOO_LONG', `A key has at most ${MAX_KEY_BYTES} bytes`)
  }
  return { agentId, key }
}

export function isAgentId(text: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9._~:@-]{0,127}$/.test(text)
}

export const AGENT_ID_RULE =
  'An agent id has 1 to 128 of the characters A-Z a-z 0-9 . _ ~ : @ - and starts with a letter or digit'
/** Longest decoded key, in bytes of UTF-8. */
const MAX_KEY_BYTES = 1024
// oxlint-disable-next-line no-control-regex -- the expression finds forbidden characters
const CONTROL_CHARACTER = /[\u0000-\u001F\u007F]/
const KEY_RULE =
  'A key is one percent-encoded path segment (a slash in it as %2F), not empty and without control characters'

function decodeSegment(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment)
  } catch {
    return undefined // not percent-encoded UTF-8
  }
}

/** Condition of a request on the stored version: RFC 9110, sections 13.1.1 and 13.1.2. `'*'` means any value. */
export interface Precondition {
  /** The stored version must be one of these. */
  readonly ifMatch: readonly string[] | '*' | undefined
  /** The stored version must be none of these. */
  readonly ifNoneMatch: readonly string[] | '*' | undefined
}

/**
 * Parses the precondition of a request. Returns `undefined` if there is none.
 *
 * @throws HTTPException for a header that cannot be read: without it, a conditional write would be unconditional
 */
export function parsePrecondition(headers: Headers): Precondition | undefined {
  const match = headers.get('if-match')
  const noneMatch = headers.get('if-none-match')
  if (match === null && noneMatch === null) return undefined
  return {
    // `If-Match` compares strong tags only. We never send weak tags.
    ifMatch: match === null ? undefined : parseTags(match),
    ifNoneMatch: noneMatch === null ? undefined : parseTags(noneMatch.replace(/W\//g, '')),
  }
}

function parseTags(header: string): readonly string[] | '*' {
  if (header.trim() === '*') return '*'
  const tags = header.split(',').map((tag) => tag.trim())
  if (!tags.every((tag) => /^(W\/)?"[^"]*"$/.test(tag))) {
    throw createRefusal(
      'BAD_REQUEST',
      'If-Match and If-None-Match must hold `*` or quoted entity tags',
    )
  }
  return tags.map((tag) => (tag.startsWith('W/') ? tag : tag.slice(1, -1)))
}

/** Returns whether a precondition holds. `version` is that of the stored value, or `undefined` without a value. */
export function holds(precondition: Precondition, version: string | undefined): boolean {
  const { ifMatch, ifNoneMatch } = precondition
  return (
    (ifMatch === undefined || matches(ifMatch, version)) &&
    (ifNoneMatch === undefined || !matches(ifNoneMatch, version))
  )
}

function matches(versions: readonly string[] | '*', version: string | undefined): boolean {
  return version !== undefined && (versions === '*' || versions.includes(version))
}
