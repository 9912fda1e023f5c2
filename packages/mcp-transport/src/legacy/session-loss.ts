import { isRecord, shortSessionId } from '@x/internal'
import { headerValue, retryAfterMs, sayDelay, SECRET_LENGTH } from '../headers.ts'
import type { Refusal } from '../http/answer-reader.ts'
import { messageFrom, parseJson } from '../json-rpc.ts'
import type { JsonRpcError, JsonRpcResponse, RequestId } from '../json-rpc.ts'
import type { ServerUrl } from '../server-url.ts'
import { LEGACY_VERSIONS, MODERN_CODES, UNSUPPORTED_VERSION } from '../session-record.ts'
import { TransportError } from '../transport-error.ts'
import type { ServerError, TransportErrorCode } from '../transport-error.ts'
import type { Limits } from '../transport-options.ts'
import type { LegacySession } from './legacy-session.ts'

/** Facts of a response that show whether the session of the request is lost. */
export interface LossEvidence {
  /** HTTP status of the answer to a POST that carried a session id. */
  readonly status: number
  /** Code of the JSON-RPC error in the body, if there is one. */
  readonly code: number | undefined
  /** JSON-RPC message, `error` string or plain text of the body. */
  readonly text: string
  /**
   * Which id the JSON-RPC error carries. `own`: the id of the request, so the server has read and perhaps
   * dispatched it. `none`: no id, `null`, or no JSON-RPC error.
   */
  readonly errorId: ErrorId
  /** The response had a `WWW-Authenticate` header: the refusal is about credentials. */
  readonly challenged: boolean
  /** The session id came from a store, and no request has succeeded with it. */
  readonly unproven: boolean
}

export type ErrorId = 'own' | 'other' | 'none'

/**
 * - `lost`: the server refused the session before it dispatched the request
 * - `ambiguous`: the session counts as lost, but the request may have been executed
 * - `not-lost`: an ordinary error of this request
 */
export type LossVerdict = 'lost' | 'ambiguous' | 'not-lost'

interface LossRule extends Partial<Pick<LossEvidence, 'errorId' | 'challenged' | 'unproven'>> {
  readonly status: (status: number) => boolean
  /** JSON-RPC error codes. An empty list matches a body without a code. */
  readonly codes?: readonly number[]
  readonly text?: (text: string) => boolean
  readonly verdict: LossVerdict
}

const is =
  (...expected: readonly number[]) =>
  (status: number) =>
    expected.includes(status)
const ok = (status: number): boolean => status >= 200 && status < 300
const failed = (status: number): boolean => status >= 400

/** -32005: tower-mcp (joshrotenberg/tower-mcp#65). */
const SESSION_CODES = [32600, -32600, -32000, -32001, -32005]

/**
 * The first matching rule decides. The specification (2025-11-25, transports, session management) defines only
 * 404; the other forms were observed with servers and gateways. `lost` is only for answers that a server gives
 * before it dispatches a request, because such a request is sent again.
 */
const RULES: readonly LossRule[] = [
  // `initialize` inside a live session
  { status: is(400), text: (text) => /already initialized/i.test(text), verdict: 'not-lost' },
  // The error has no id, and its text is only about the session.
  { status: is(404), codes: [-32601], errorId: 'none', text: saysOnlySession, verdict: 'lost' },
  // No request has succeeded in this stored session. A bridge may have converted an empty 404 to this error.
  { status: is(404), codes: [-32601], unproven: true, verdict: 'ambiguous' },
  // The server does not know the method of the request.
  { status: is(404), codes: [-32601], text: (text) => /method/i.test(text), verdict: 'not-lost' },
  // The text names no method: perhaps an empty 404 that a bridge converted.
  { status: is(404), codes: [-32601], verdict: 'ambiguous' },
  // Frameworks and hand-written guards copy the id of the request into the error of their session check: Helidon
  // (helidon-io/helidon-mcp#152), and Express handlers that answer 404 with `id: req.body?.id ?? null` before they pass
  // the request to a transport. A server that has dispatched a tool answers 200: 404 is the status of the session check
  // (2025-11-25, transports, session management). Not for 400, which hand-written servers also use for tools.
  {
    status: is(404),
    codes: SESSION_CODES,
    errorId: 'own',
    text: saysOnlySession,
    verdict: 'lost',
  },
  // Any other error with the id of the request may come from a tool.
  { status: is(404, 410), errorId: 'own', verdict: 'ambiguous' },
  { status: is(404, 410), verdict: 'lost' },
  // Errors of the request itself, even if a method or parameter has "session" in its name.
  { status: failed, codes: [-32601, -32602, -32700], verdict: 'not-lost' },
  // Overload is not a lost session.
  { status: is(429, 503), verdict: 'not-lost' },
  { status: is(401, 403), challenged: true, verdict: 'not-lost' },
  // Not 409: a tool also answers it after it ran, such as for a basket that two users change.
  { status: is(400, 401, 403), errorId: 'none', text: saysOnlySession, verdict: 'lost' },
  // Tools also fail with such texts: "database session expired while committing order 17".
  { status: failed, text: saysSession, verdict: 'ambiguous' },
  // Bridges pass refusals on inside a 2xx response: the status proves nothing.
  { status: ok, codes: SESSION_CODES, text: saysSession, verdict: 'ambiguous' },
  // A body or event that is not JSON-RPC, such as `{"error":"Session not found"}` (keryx #503).
  { status: ok, codes: [], text: saysSession, verdict: 'ambiguous' },
]

/**
 * Returns whether a lost session is named in words, in an error that is not the answer to the request. Such a refusal
 * is certain also in a session that was just opened. One without words is not: a tool that always fails with an empty
 * 404 looks the same in every session.
 */
function namesLostSession({ text, errorId }: LossEvidence): boolean {
  return errorId !== 'own' && saysOnlySession(text)
}

/**
 * Number of refusals in a row, of any form, after which a session counts as lost. Otherwise a client could stay in a
 * session that the server has forgotten.
 */
export const MAX_REFUSALS = 2

/**
 * Judges the response to a POST with a session id (legacy era). `deleteSession()` also judges the response to a
 * DELETE, to find out that the server has already forgotten the session. The response to a GET proves nothing.
 */
export function lossVerdict(evidence: LossEvidence): LossVerdict {
  return RULES.find((rule) => fits(rule, evidence))?.verdict ?? 'not-lost'
}

/** The refusal of a request: an HTTP response, or a JSON-RPC error. */
type Response = Refusal | JsonRpcError

/**
 * - `refused`: the server does not know the session
 * - `initialized`: the server has the session open, and refuses only `initialize`
 * - `unknown`: the response says nothing about the session
 */
export type InitializeVerdict = 'refused' | 'initialized' | 'unknown'

/** Judges a response to `initialize` in a stored session. */
export function initializeVerdict(response: Response): InitializeVerdict {
  const { status, text } = toRefusal(response)
  if (isLostSession(response) && !/already.initiali[sz]ed/i.test(text)) return 'refused'
  return 'jsonrpc' in response || status === 400 ? 'initialized' : 'unknown'
}

/**
 * Returns the version to ask for instead, if a server refuses that of `initialize` and does not answer with its own
 * (2025-11-25, lifecycle; xpzouying/xiaohongshu-mcp#697, newo-ether/Agora#78). A server that names none gets the next
 * older one.
 */
export function otherVersion(response: Response, asked: unknown): string | undefined {
  const { status, text } = toRefusal(response)
  const isVersion = /protocol.?version/i.test(text) && (status < 300 || status === 400)
  const { code } = parseEvidence(text)
  if (!isVersion || (code !== undefined && MODERN_CODES.includes(code))) return undefined
  const others = [...LEGACY_VERSIONS, OLDEST_VERSION].filter((version) => version !== asked)
  return (
    others.find((version) => text.includes(version)) ?? others.find((one) => one < String(asked))
  )
}

/** Some servers with sessions answer with it. Clients speak it like the version after it. */
const OLDEST_VERSION = '2024-11-05'

/**
 * Judges a response to a harmless request in a stored session. `other-version`: the server requires another version
 * of the protocol. `unknown`: the response says nothing about the session.
 */
export function testVerdict(response: Response): 'refused' | 'other-version' | 'unknown' {
  const { status, text } = toRefusal(response)
  const { code } = parseEvidence(text)
  const isModern = code !== undefined && MODERN_CODES.includes(code)
  if (status === 400 && !isModern && /protocol version/i.test(text)) return 'other-version'
  return status === 400 || status === 404 || isLostSession(response) ? 'refused' : 'unknown'
}

/** Returns whether a response to a request outside of calls refuses the stored session. */
export function isLostSession(response: Response): boolean {
  const { status, headers, text } = toRefusal(response)
  const challenged = headerValue(headers, 'www-authenticate') !== undefined
  const evidence = { status, ...parseEvidence(text), challenged, unproven: false }
  return lossVerdict(evidence) !== 'not-lost'
}

/** A body or event that may refuse the session, with status 200. */
export function okRefusal(text: string): Refusal {
  return {
    status: 200,
    headers: {},
    text,
    isPartial: false,
    hadAuthorization: false,
    cause: undefined,
  }
}

function toRefusal(response: Response): Refusal {
  return 'jsonrpc' in response ? okRefusal(JSON.stringify(response)) : response
}

/**
 * Returns code, text and id of an error body in any form.
 *
 * @param requestId Id of the request as it was sent
 * @param isPartial The body was not read completely: the id of the request may be in the unread part
 */
export function parseEvidence(
  body: string,
  requestId?: RequestId,
  isPartial = false,
): Pick<LossEvidence, 'code' | 'text' | 'errorId'> {
  const value = parseJson(body)
  const errorId =
    isPartial && MAY_BE_MESSAGE.test(body) ? 'own' : findErrorId(value, body, requestId)
  if (!isRecord(value)) return { code: undefined, text: body, errorId }
  const { error, message } = value
  if (typeof error === 'string') return { code: undefined, text: error, errorId }
  // Also malformed JSON-RPC errors: without a version, or with a text as code.
  if (isRecord(error) && typeof error['message'] === 'string') {
    const { code, message: text } = error
    return { code: typeof code === 'number' ? code : undefined, text, errorId }
  }
  return { code: undefined, text: typeof message === 'string' ? message : body, errorId }
}

/** Start of JSON or of an event stream, or an empty body. */
const MAY_BE_MESSAGE = /^\s*(?:$|["{[:]|(?:data|event|id|retry):)/

/** Value of a member `id`, also in JSON that is encoded as text in other JSON. */
const ID_MEMBER = /"id\\*"\s*:\s*(?:\\*"([^"\\]*)\\*"|(-?[\w.+-]+))/g

/** The id of the request counts wherever it is found: in an event stream, a batch, or JSON around the error. */
function findErrorId(value: unknown, body: string, requestId: RequestId | undefined): ErrorId {
  // Helidon fills in the id of an empty 404, and answers without a result and an error (helidon-io/helidon-mcp#152).
  if (isRecord(value) && Object.keys(value).toSorted().join() === 'id,jsonrpc') return 'none'
  // Some servers return a number as text.
  const ids = Array.from(body.matchAll(ID_MEMBER), ([, text, bare]) => text ?? bare)
  if (requestId !== undefined && ids.includes(String(requestId))) return 'own'
  const id = isRecord(value) ? value['id'] : ids.find((one) => one !== 'null')
  return id === undefined || id === null ? 'none' : 'other'
}

function fits(rule: LossRule, { status, code, text, ...evidence }: LossEvidence): boolean {
  const { codes, errorId, challenged, unproven } = { ...evidence, ...rule }
  return (
    rule.status(status) &&
    (codes === undefined || (code === undefined ? codes.length === 0 : codes.includes(code))) &&
    errorId === evidence.errorId &&
    challenged === evidence.challenged &&
    unproven === evidence.unproven &&
    (rule.text === undefined || rule.text(text))
  )
}

const REFUSED =
  /invalid|missing|expired|unknown|not found|no valid|no active|terminated|required|not initialized/i

function saysSession(text: string): boolean {
  if (text.trimStart().startsWith('<')) return false // an HTML page
  return (/session/i.test(text) && REFUSED.test(text)) || /server not initialized/i.test(text)
}

/** Words of a refusal that is only about an MCP session. */
const SESSION_WORDS: ReadonlySet<string> = new Set(
  [
    'mcp session sessions id sessionid header server client http',
    'invalid valid missing expired unknown found active terminated required initialized provided',
    'given exist exists longer bad request error detail message unauthorized forbidden',
    'initialize initialization reinitialize start new please first must',
    'a an the this that no not or and is was has have been be any for in of to with does it',
  ].flatMap((line) => line.split(' ')),
)

/** Form of `shortSessionId`: session ids in the text were shortened before. */
const SHORT_ID = /\S{4}…\(\d+\)/g

/** "Browser session not found" contains another word: that session belongs to a tool. */
function saysOnlySession(text: string): boolean {
  if (!saysSession(text)) return false
  const words =
    text
      .replace(SHORT_ID, ' ')
      .toLowerCase()
      .match(/[\p{L}\p{N}]+/gu) ?? []
  return words.every((word) => SESSION_WORDS.has(word))
}

interface RefusalContext {
  /** The session that the request was sent in, if the refusal may prove that it is lost. */
  readonly session: LegacySession | undefined
  readonly sessionId: string | undefined
  /**
   * Id of the request as it was sent. Distinguishes an error of the request from an error before its dispatch.
   */
  readonly requestId: RequestId | undefined
  /** A message for this request arrived: the server has begun to execute it. */
  readonly isStarted: boolean
}

/**
 * Statuses that servers and gateways send before they dispatch a request: wrong method, headers or length, or
 * too many requests (429).
 */
const REFUSED_UNREAD: readonly number[] = [405, 406, 411, 413, 414, 415, 426, 429, 431]

/** Returns whether a request was refused before it was dispatched, because of its method, headers or length. */
export function isRefusedUnread({
  status,
  errorId,
}: Pick<LossEvidence, 'status' | 'errorId'>): boolean {
  return REFUSED_UNREAD.includes(status) && errorId !== 'own'
}

/** Revisions of the specification are named by their dates. */
const MCP_VERSION = /\b20\d\d-\d\d-\d\d\b/

/** Limit for ids in messages: a server may send any text as id. */
const MAX_ID_LENGTH = 40
const NAMES_ID = /session[ _-]?id/i

export function toRefusalError(
  refusal: Refusal,
  http: { readonly url: Pick<ServerUrl, 'display'>; readonly limits: Limits },
  { session, sessionId = session?.id, requestId, isStarted = false }: Partial<RefusalContext>,
): TransportError {
  const { status, headers } = refusal
  const url = http.url.display
  const text = withoutId(refusal.text, sessionId)
  const evidence = parseEvidence(text, requestId, refusal.isPartial)
  const serverError = parseServerError(text)
  const bodyText = excerpt(text, http.limits.errorTextBytes)
  const options = { status, url, bodyText, serverError, cause: refusal.cause }
  const said =
    refusal.cause instanceof Error
      ? `: ${refusal.cause.message}`
      : sayFrom(oauthErrorFrom(text) ?? evidence.text)
  if (session !== undefined) {
    const { id, epoch, protocolVersion } = session
    const challenged = headerValue(headers, 'www-authenticate') !== undefined
    const all = { status, ...evidence, challenged, unproven: !session.isProven }
    let verdict = id === undefined ? 'not-lost' : lossVerdict(all)
    let reason = 'no longer knows the session'
    if (verdict === 'not-lost') {
      verdict = versionVerdict(all, serverError, protocolVersion)
      reason = `no longer speaks ${protocolVersion}`
    }
    if (verdict !== 'not-lost') {
      // If the first request in a new session fails, it may be a tool that always fails without a word.
      const isNamed = namesLostSession(all)
      const certain = verdict === 'lost' && !isStarted && (isNamed || !session.isDoubtful)
      const message = `${url} ${reason} (HTTP ${status}${said})`
      return new TransportError('SESSION_LOST', message, { ...options, certain, epoch, isNamed })
    }
  }
  const [code, what] = meaningOf(refusal)
  const { errorId } = evidence
  const isUnread =
    (code === 'UNAUTHORIZED' ? errorId !== 'own' : isRefusedUnread({ status, errorId })) &&
    !isStarted
  const delayMs = retryAfterMs(headers)
  // Reported for example in agentic-community/mcp-gateway-registry#1096.
  const isWithoutId = session !== undefined && sessionId === undefined && status === 400
  const hint =
    isWithoutId && NAMES_ID.test(text)
      ? '. It assigned no session id: does a proxy drop the header Mcp-Session-Id of its responses?'
      : ''
  const message = `${url} ${what} (HTTP ${status}${said})${sayDelay(delayMs)}${hint}`
  return new TransportError(code, message, {
    ...options,
    retryAfterMs: delayMs,
    outcome: isUnread ? 'not-executed' : 'unknown',
  })
}

/** The response to the request `id` ended, and its only answer has the id of another request. */
export function misroutedError(
  about: { readonly url: string; readonly status?: number | undefined },
  id: RequestId,
  answer: JsonRpcResponse,
): TransportError {
  const given = String(answer.id).slice(0, MAX_ID_LENGTH)
  const message = `${about.url} answered request ${id} with the id of another request (${given}). The answer was dropped, and request ${id} may have been executed: find out before you send it again`
  return new TransportError('OUTCOME_UNKNOWN', message, about)
}

/**
 * Returns whether the server refuses the negotiated protocol version of a session, because it was replaced by a
 * server of another revision. It does so before it dispatches the request.
 */
function versionVerdict(
  { status, code, text, errorId }: LossEvidence,
  serverError: ServerError | undefined,
  protocolVersion: string | undefined,
): LossVerdict {
  if (status !== 400 || protocolVersion === undefined) return 'not-lost'
  if (code !== undefined && MODERN_CODES.includes(code)) {
    const data = serverError?.data
    const supported = isRecord(data) ? data['supported'] : undefined
    const isRefused = Array.isArray(supported) && !supported.includes(protocolVersion)
    return code === UNSUPPORTED_VERSION && isRefused ? 'lost' : 'ambiguous'
  }
  if (!/unsupported protocol version/i.test(text)) return 'not-lost'
  // Servers name the versions that they accept. Tools also fail with such texts: "unsupported protocol version TLS 1.0".
  return errorId === 'none' && MCP_VERSION.test(text) ? 'lost' : 'ambiguous'
}

function meaningOf({ status, hadAuthorization }: Refusal): [TransportErrorCode, string] {
  if (status === 401) {
    const what = hadAuthorization
      ? 'does not accept the credentials in the header "authorization"'
      : 'requires credentials, and the request had no header "authorization"'
    return ['UNAUTHORIZED', what]
  }
  if (status === 403) return ['UNAUTHORIZED', 'does not allow this']
  if (status < 300) return ['UNEXPECTED_RESPONSE', 'answered with something that is not MCP']
  return ['REJECTED', 'rejected the request']
}

/** Returns the code and the description of an error of OAuth (RFC 6749 section 5.2), which name what to do. */
function oauthErrorFrom(text: string): string | undefined {
  const body = parseJson(text)
  if (!isRecord(body)) return undefined
  const { error, error_description: description } = body
  const isBoth = typeof error === 'string' && typeof description === 'string'
  return isBoth ? `${error}: ${description}` : undefined
}

/** Returns the start of the server's text for a message, unless it is markup. */
function sayFrom(text: string): string {
  const line = text.trim().replace(/\s+/g, ' ')
  if (line === '') return ''
  if (line.startsWith('<')) return ', an HTML page: is this the URL of an MCP endpoint?'
  return `: ${line.length > 200 ? `${line.slice(0, 200)}…` : line}`
}

function excerpt(text: string, bytes: number): string {
  const all = Buffer.from(text)
  if (all.length <= bytes) return text
  return `${new TextDecoder().decode(all.subarray(0, bytes), { stream: true })}… (cut)`
}

/** Shortens the session id in a text of the server. */
function withoutId(text: string, id: string | undefined): string {
  if (id === undefined || id.length < SECRET_LENGTH) return text
  return text.replaceAll(id, shortSessionId(id))
}

function parseServerError(text: string): ServerError | undefined {
  const message = messageFrom(parseJson(text))
  return message !== undefined && 'error' in message ? message.error : undefined
}
