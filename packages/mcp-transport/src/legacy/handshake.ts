import { createHash } from 'node:crypto'
import { canonicalJson, isRecord, isSessionId } from '@x/internal'
import { headerValue, POST_HEADERS } from '../headers.ts'
import type { ResponseHeaders } from '../headers.ts'
import type { Refusal } from '../http/answer-reader.ts'
import type { HttpClient } from '../http/http-client.ts'
import { RpcExchange } from '../http/rpc-exchange.ts'
import type { RpcListener, RpcReply, RpcRequest } from '../http/rpc-exchange.ts'
import { isRequest, METHOD_NOT_FOUND } from '../json-rpc.ts'
import type { JsonRpcRequest, JsonRpcResponse } from '../json-rpc.ts'
import { isInitializeResult, LEGACY_VERSIONS } from '../session-record.ts'
import type { InitializeResult } from '../session-record.ts'
import type { OpeningError, TransportError } from '../transport-error.ts'
import type { ConnectionParts } from '../calls/connection-parts.ts'
import { LegacySession, sessionHeaders } from './legacy-session.ts'
import {
  initializeVerdict,
  otherVersion,
  misroutedError,
  testVerdict,
  toRefusalError,
} from './session-loss.ts'
import type { InitializeVerdict } from './session-loss.ts'
import type { OpenOptions } from './session-opener.ts'

/** The opening of a session, for all requests that belong to it. */
export interface Opening
  extends OpenOptions, Pick<ConnectionParts, 'http' | 'timeouts' | 'onNotification' | 'guard'> {
  /** The client's `initialize`. */
  readonly request: JsonRpcRequest
}

/** Limits and connection of a request that opens or tests a session. */
type Asking = Pick<Opening, 'http' | 'timeouts' | 'onNotification' | 'guard' | 'signal' | 'limitMs'>

/** Id of a stored session, and the version that was negotiated in it, if that is known. */
export interface StoredId {
  readonly sessionId: string
  readonly protocolVersion: string | undefined
}

/** `assigned` is the session id in the response head, `refusal` the response of a server that refused the request. */
type Reply = { readonly assigned: string | undefined } & (
  | { readonly kind: 'answered'; readonly answer: JsonRpcResponse }
  | {
      readonly kind: 'failed'
      readonly error: TransportError
      readonly refusal: Refusal | undefined
    }
)

export type Initialized =
  | {
      readonly kind: 'opened'
      readonly sessionId: string | undefined
      readonly result: InitializeResult
    }
  | {
      readonly kind: 'failed'
      readonly error: OpeningError
      /** Verdict about the stored session in which `initialize` was sent. */
      readonly verdict: InitializeVerdict
      /** Version that the server may take instead. */
      readonly otherVersion?: string | undefined
    }

/**
 * Sends `initialize` (2025-11-25, lifecycle). The session id is taken only from this response.
 *
 * @param stored Set only to find out whether a stored id without a record is still valid. Otherwise `initialize`
 * carries no session.
 * @param onAssigned Called synchronously with the id of a new session, before anything can be closed. `isOpen` is
 * false for a session that stays unused, because the answer was missing, invalid or too late.
 */
export async function initialize(
  opening: Opening,
  stored: StoredId | undefined,
  onAssigned: (sessionId: string, isOpen: boolean) => void,
): Promise<Initialized> {
  const outcome = await initializeOnce(opening, stored, onAssigned)
  if (outcome.kind === 'opened' || outcome.otherVersion === undefined) return outcome
  if (stored !== undefined) return outcome // it may be open, and refuse a second `initialize`
  const { request } = opening
  const params = { ...request.params, protocolVersion: outcome.otherVersion }
  const second = { ...opening, request: { ...request, params } }
  const last = await initializeOnce(second, stored, onAssigned)
  return last.kind === 'opened' ? last : outcome
}

function initializeOnce(
  opening: Opening,
  stored: StoredId | undefined,
  onAssigned: (sessionId: string, isOpen: boolean) => void,
): Promise<Initialized> {
  const { request } = opening
  const { sessionId, protocolVersion } = stored ?? {}
  const headers = POST_HEADERS.concat(sessionHeaders(sessionId, protocolVersion))
  const assign = (assigned: string | undefined, isOpen: boolean): void => {
    if (assigned !== sessionId && isSessionId(assigned)) onAssigned(assigned, isOpen)
  }
  const onLateHead = (head: ResponseHeaders): void =>
    assign(headerValue(head, 'mcp-session-id'), false)
  const sent = { body: request, sessionId, headers, idleMs: 0, onLateHead }
  return post(opening, sent, (reply) => {
    const initialized = toInitialized(reply, opening)
    assign(reply.assigned, initialized.kind === 'opened')
    return initialized
  })
}

function toInitialized(reply: Reply, { http, isReplacement, request }: Opening): Initialized {
  const asked = request.params?.['protocolVersion']
  if (reply.kind === 'failed') {
    const { error, refusal } = reply
    const verdict = refusal === undefined ? 'unknown' : initializeVerdict(refusal)
    return {
      kind: 'failed',
      error: isReplacement ? error : explained(error),
      verdict,
      otherVersion: refusal && otherVersion(refusal, asked),
    }
  }
  const { answer, assigned: sessionId } = reply
  if (!('result' in answer)) {
    return {
      kind: 'failed',
      error: answer.error,
      verdict: initializeVerdict(answer),
      otherVersion: otherVersion(answer, asked),
    }
  }
  const { result } = answer
  const isUsable = sessionId === undefined || isSessionId(sessionId)
  if (isUsable && isInitializeResult(result)) return { kind: 'opened', sessionId, result }
  const what = isUsable
    ? 'answered initialize without protocolVersion, capabilities or serverInfo'
    : 'assigned a session id that is not visible ASCII of at most 1 KiB'
  const error = http.error('UNEXPECTED_RESPONSE', `${http.url.display} ${what}`)
  return { kind: 'failed', error, verdict: 'unknown' }
}

/** Says what else the URL may be, if the server refused `initialize` without an error of JSON-RPC. */
function explained(error: TransportError): TransportError {
  const { status = 0, serverError, url } = error
  if (serverError !== undefined || ![400, 404, 405].includes(status)) return error
  const message = `${url} refuses initialize (HTTP ${status}): it is not an MCP endpoint, or a server of the HTTP+SSE transport of 2024-11-05, which is not supported. Check the URL`
  return error.with({ message })
}

/**
 * Returns a digest of the client's `initialize` parameters. A session is valid only for the capabilities that
 * it was opened with. The client's version is left out: an update of the client keeps its sessions.
 */
export function initializeParamsHash(request: JsonRpcRequest): string {
  const { capabilities, clientInfo } = request.params ?? {}
  const client = isRecord(clientInfo) ? { ...clientInfo, version: undefined } : clientInfo
  return createHash('sha256')
    .update(canonicalJson({ capabilities, client }))
    .digest()
    .toString('hex', 0, 16)
}

export type LiveSession =
  | { readonly kind: 'live'; readonly result: InitializeResult }
  /** The server refuses requests in this session. */
  | { readonly kind: 'refused' }
  /** The state of the session is unknown: the connection failed, or the server is busy. */
  | { readonly kind: 'failed'; readonly error: TransportError }

const LISTS = ['tools', 'prompts', 'resources'] as const
const SILENCE_MS = 30_000

/**
 * Describes the server of a session that another client opened and of which only the id is known. Sends only
 * requests without side effects. The version is the known one, or the newest with which the server answers
 * `ping`. Capabilities are those whose list the server returns; list-changed notifications are assumed, so that
 * clients listen for them. Name, version, instructions and other capabilities of the server stay unknown.
 */
export async function describeLiveSession(
  opening: Opening,
  { sessionId, protocolVersion }: StoredId,
): Promise<LiveSession> {
  for (const version of protocolVersion === undefined ? LEGACY_VERSIONS : [protocolVersion]) {
    const ask = askIn(opening, sessionId, version)
    const alive = await ask('ping')
    if (alive === 'other-version') continue
    if (alive.kind !== 'answered') return alive
    const answers = await Promise.all(LISTS.map((name) => ask(`${name}/list`)))
    const capabilities: Record<string, unknown> = {}
    for (const [n, name] of LISTS.entries()) {
      const said = answers[n]
      if (said === undefined || said === 'other-version') continue
      if (said.kind !== 'answered') return said
      if (!isUnknownMethod(said.answer)) capabilities[name] = { listChanged: true }
    }
    const serverInfo = { name: new URL(opening.http.url.display).host, version: '0' }
    return { kind: 'live', result: { protocolVersion: version, capabilities, serverInfo } }
  }
  return { kind: 'refused' }
}

const PING_MS = 2000

/**
 * Returns whether the server still knows a session, by a `ping`. A server that is only slow counts as live. Repeats
 * the `ping` once after a connection failure, because the pool may hold a dead connection.
 */
export async function pingSession(
  opening: Opening,
  { id: sessionId, protocolVersion }: LegacySession,
): Promise<'live' | Exclude<LiveSession, { kind: 'live' }>> {
  if (sessionId === undefined || protocolVersion === undefined) return 'live' // nothing to test
  const limitMs = Math.min(opening.limitMs ?? PING_MS, PING_MS)
  const ask = askIn({ ...opening, limitMs }, sessionId, protocolVersion)
  for (let attempt = 1; ; attempt++) {
    const answer = await ask('ping')
    if (answer === 'other-version' || answer.kind === 'answered') return 'live'
    if (answer.kind === 'refused') return answer
    if (answer.error.code === 'TIMEOUT') return 'live'
    if (attempt === 2) return answer
  }
}

/**
 * Returns whether the server answers a `ping` in a session with a result. A server that fails at every request does
 * not, in whatever form.
 *
 * @throws TransportError `UNREACHABLE` if it cannot be asked
 */
export async function provesSession(
  asking: Asking,
  { id, protocolVersion }: LegacySession,
): Promise<boolean> {
  const answer = await askIn({ ...asking, limitMs: PING_MS }, id, protocolVersion)('ping')
  if (answer === 'other-version' || answer.kind === 'refused') return false
  if (answer.kind === 'answered') return 'result' in answer.answer
  if (answer.error.code === 'UNREACHABLE') throw answer.error
  return false
}

/** Returns a function that sends a request without parameters in a stored session. */
function askIn(
  opening: Asking,
  id: string | undefined,
  protocolVersion: string | undefined,
): (method: string) => Promise<Reply | { readonly kind: 'refused' } | 'other-version'> {
  const session = new LegacySession({ id, epoch: 0, protocolVersion, isResumed: true })
  const { postHeaders: headers } = session
  let next = 0
  return (method) => {
    const body = { jsonrpc: '2.0', id: session.wireId(next++), method } as const
    const sent = { body, sessionId: id, headers, idleMs: SILENCE_MS }
    return post(opening, sent, (reply) => {
      const response = reply.kind === 'answered' ? reply.answer : reply.refusal
      if (response === undefined || 'result' in response) return reply
      const verdict = testVerdict(response)
      if (verdict === 'unknown') return reply
      return verdict === 'refused' ? { kind: 'refused' } : verdict
    })
  }
}

function isUnknownMethod(answer: JsonRpcResponse): boolean {
  return 'error' in answer && answer.error.code === METHOD_NOT_FOUND
}

/**
 * Sends one request of an opening.
 *
 * @param read Called synchronously with the reply
 */
function post<T>(
  { http, timeouts, signal, limitMs, onNotification, guard }: Asking,
  sent: Pick<RpcRequest, 'body' | 'sessionId' | 'headers' | 'idleMs' | 'onLateHead'>,
  read: (reply: Reply) => T,
): Promise<T> {
  const { headersMs } = timeouts
  const listener: RpcListener = {
    message: (message) => {
      // A server must not ask before the session is open (2025-11-25, lifecycle).
      if (!isRequest(message)) guard(() => onNotification(message))
    },
  }
  const asked = { method: 'POST', era: 'legacy', headersMs, signal, limitMs, listener } as const
  return new Promise((resolve) => {
    new RpcExchange(http, { ...sent, ...asked }, (reply, exchange) =>
      resolve(read(toReply(reply, exchange, http))),
    ).start()
  })
}

function toReply(
  reply: RpcReply,
  { request: { body, sessionId }, headers, misrouted }: RpcExchange,
  http: HttpClient,
): Reply {
  const assigned = headerValue(headers, 'mcp-session-id')
  if (reply.kind === 'answered') return { ...reply, assigned }
  const failed = (error: TransportError, refusal?: Refusal): Reply => {
    // A misrouted answer may carry the session of another client, which must not be terminated.
    const own = misrouted === undefined ? assigned : undefined
    return { kind: 'failed', error, refusal, assigned: own }
  }
  if (reply.kind === 'failed') return failed(reply.error)
  if (reply.kind === 'refused') {
    const { refusal } = reply
    return failed(toRefusalError(refusal, http, { sessionId }), refusal)
  }
  const { display: url } = http.url
  if (misrouted !== undefined) return failed(misroutedError({ url }, body.id, misrouted))
  const message = `${url} ended its response to ${body.method} without an answer`
  return failed(http.error('OUTCOME_UNKNOWN', message))
}
