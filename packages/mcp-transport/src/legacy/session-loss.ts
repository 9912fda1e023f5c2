import { isObject, messageFrom } from '../json-rpc.ts'

/** Everything that tells whether a response refuses the *session*, and nothing else. */
export interface LossEvidence {
  /** HTTP status of the answer to a POST that carried a session id. */
  readonly status: number
  /** Code of the JSON-RPC error in the body, if there is one. */
  readonly code?: number | undefined
  /** JSON-RPC message, `error` string or plain text, as it came over the wire. */
  readonly text: string
  /** Whether there was a `WWW-Authenticate` header: then it is about credentials. */
  readonly challenged?: boolean | undefined
  /** The id came out of a store, and no request has succeeded with it yet. */
  readonly unproven?: boolean | undefined
}

/** `ambiguous`: the session is given up, but nothing proves that the request was not executed. */
export type LossVerdict = 'lost' | 'ambiguous' | 'not-lost'

interface LossRule {
  readonly status: (status: number) => boolean
  /** JSON-RPC error codes; an empty list fits what has none. */
  readonly codes?: readonly number[]
  readonly text?: (text: string) => boolean
  readonly challenged?: boolean
  readonly unproven?: boolean
  readonly verdict: LossVerdict
}

const is = (expected: number) => (status: number) => status === expected
const ok = (status: number): boolean => status >= 200 && status < 300
const failed = (status: number): boolean => status >= 400

const SESSION_CODES = [32600, -32600, -32000, -32001]

/**
 * The first rule that fits decides. Seen from servers and gateways in the field; the specification
 * (2025-11-25, transports, session management) knows only 404.
 */
const RULES: readonly LossRule[] = [
  // `initialize` inside a session that lives.
  { status: is(400), text: saysAlreadyInitialized, verdict: 'not-lost' },
  // A bare 404 as some bridges show it, and also a plain unknown method.
  { status: is(404), codes: [-32601], text: saysOnlySession, verdict: 'lost' },
  { status: is(404), codes: [-32601], unproven: true, verdict: 'ambiguous' },
  { status: is(404), codes: [-32601], verdict: 'not-lost' },
  { status: is(404), verdict: 'lost' },
  { status: is(410), verdict: 'lost' },
  // About the request itself, even where a method or a parameter has "session" in its name.
  { status: failed, codes: [-32601, -32602, -32700], verdict: 'not-lost' },
  // Overload is never about one session.
  { status: is(429), verdict: 'not-lost' },
  { status: is(503), verdict: 'not-lost' },
  { status: is(401), challenged: true, verdict: 'not-lost' },
  { status: is(409), text: saysSession, verdict: 'ambiguous' },
  { status: failed, text: saysSession, verdict: 'lost' },
  // In-band refusals, passed on by bridges: the status proves nothing.
  { status: ok, codes: SESSION_CODES, text: saysSession, verdict: 'ambiguous' },
  // A body or event that is no JSON-RPC at all, such as `{"error":"Session not found"}` (keryx #503).
  { status: ok, codes: [], text: saysSession, verdict: 'lost' },
]

/** Judges the answer to a POST that carried a session id (legacy era). GET and DELETE prove nothing. */
export function lossVerdict(evidence: LossEvidence): LossVerdict {
  return RULES.find((rule) => fits(rule, evidence))?.verdict ?? 'not-lost'
}

/** Code and text of an error body, whatever its form. */
export function evidenceFrom(body: string): { code?: number; text: string } {
  const value = parseJson(body)
  const message = messageFrom(value)
  if (message !== undefined && 'error' in message) {
    return { code: message.error.code, text: message.error.message }
  }
  if (!isObject(value)) return { text: body }
  const { error, message: text } = value
  if (typeof error === 'string') return { text: error }
  // Errors that are not quite JSON-RPC: no version, a code that is a string.
  if (isObject(error) && typeof error['message'] === 'string') {
    const code = error['code']
    return typeof code === 'number' ? { code, text: error['message'] } : { text: error['message'] }
  }
  return { text: typeof text === 'string' ? text : body }
}

function fits(rule: LossRule, evidence: LossEvidence): boolean {
  return (
    rule.status(evidence.status) &&
    (rule.codes === undefined || fitsCode(rule.codes, evidence.code)) &&
    (rule.challenged === undefined || rule.challenged === (evidence.challenged ?? false)) &&
    (rule.unproven === undefined || rule.unproven === (evidence.unproven ?? false)) &&
    (rule.text === undefined || rule.text(evidence.text))
  )
}

function fitsCode(codes: readonly number[], code: number | undefined): boolean {
  return code === undefined ? codes.length === 0 : codes.includes(code)
}

const REFUSED =
  /invalid|missing|expired|unknown|not found|no valid|no active|terminated|required|not initialized/i

function saysSession(text: string): boolean {
  if (text.trimStart().startsWith('<')) return false // a page for people: it may say anything
  return (/session/i.test(text) && REFUSED.test(text)) || /server not initialized/i.test(text)
}

function saysOnlySession(text: string): boolean {
  return saysSession(text) && !/method/i.test(text)
}

function saysAlreadyInitialized(text: string): boolean {
  return /already initialized/i.test(text)
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined // plain text or HTML
  }
}
