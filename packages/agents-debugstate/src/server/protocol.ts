// The parts of PROTOCOL.md that need no server: names and error answers.
import { HTTPException } from 'hono/http-exception'
import type { DebugStateAddress } from './debug-state-store.ts'

/** Status and title by the code of a problem. */
const STATUS = {
  BAD_REQUEST: [400, 'Bad Request'], // the path, the host name or the body cannot be read
  BAD_AGENT_ID: [400, 'Bad Request'],
  BAD_KEY: [400, 'Bad Request'],
  BAD_VALUE: [400, 'Bad Request'], // not text
  UNAUTHORIZED: [401, 'Unauthorized'], // no token, or an unknown one
  FORBIDDEN: [403, 'Forbidden'], // the token is not for this agent, or the host name is not loopback
  NOT_FOUND: [404, 'Not Found'],
  METHOD_NOT_ALLOWED: [405, 'Method Not Allowed'],
  BODY_TOO_LARGE: [413, 'Content Too Large'],
  KEY_TOO_LONG: [414, 'URI Too Long'],
  STORE_FAILED: [503, 'Service Unavailable'],
} as const

/** Why a request failed. Stable: clients switch on it. PROTOCOL.md explains each code. */
export type ProblemCode = keyof typeof STATUS

/**
 * Creates an error answer: RFC 9457, with `code` as an extension. `detail` names the error, and the rule that the
 * request broke. It contains no values and no tokens.
 */
export function createProblem(
  code: ProblemCode,
  detail: string,
  headers: Readonly<Record<string, string>> = {},
): Response {
  const [status, title] = STATUS[code]
  const body = { type: 'about:blank', title, status, detail, code }
  const own = { 'content-type': 'application/problem+json', 'cache-control': 'no-store' }
  return new Response(JSON.stringify(body), { status, headers: { ...own, ...headers } })
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

/**
 * Parses `{agentId}/{key}` of a URL. The key is one segment, and is decoded exactly once: `%2F` is
 * a slash in the key, `%252F` is the text `%2F`.
 *
 * @throws HTTPException for a name that breaks its rule
 */
export function parseAddress(path: string): DebugStateAddress {
  const [agentSegment = '', keySegment = '', ...rest] = path.split('/')
  const agentId = decodeSegment(agentSegment)
  if (agentId === undefined || !isAgentId(agentId)) {
    throw createRefusal('BAD_AGENT_ID', AGENT_ID_RULE)
  }
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
/** Largest value, in bytes. */
export const MAX_VALUE_BYTES = 65_536
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
