import { isRecord } from '@x/internal'
import type { Refusal } from './http/answer-reader.ts'
import { headerValue, retryAfterMs } from './http/response-headers.ts'
import { messageFrom } from './json-rpc.ts'
import type { JsonRpcResponse, RequestId } from './json-rpc.ts'
import { shortSessionId } from './session-id.ts'
import { TransportError } from './transport-error.ts'
import type { ServerError, TransportErrorCode } from './transport-error.ts'
import type { LegacySession } from './legacy/legacy-session.ts'
import { evidenceFrom, lossVerdict } from './legacy/session-loss.ts'
import type { LossVerdict } from './legacy/session-loss.ts'
import { MODERN_CODES, UNSUPPORTED_VERSION } from './era/versions.ts'

export interface RefusalContext {
  /** Endpoint without query. */
  readonly url: string
  /** The session that the request was sent in. */
  readonly session: LegacySession | undefined
  /** The id that the request carried, where that is not the session's. */
  readonly sessionId?: string | undefined
  /** Id of the request on the wire: tells an error of the request from an error before its dispatch. */
  readonly requestId?: RequestId | undefined
  readonly errorTextBytes: number
  /** Something for this request has come already: then the server has begun to run it. */
  readonly isHeard?: boolean | undefined
}

/**
 * Statuses that HTTP servers and gateways give before they dispatch a request: the method, the headers or
 * the length are refused, or there are too many requests (429).
 */
const REFUSED_UNREAD: readonly number[] = [405, 406, 411, 413, 414, 415, 426, 429, 431]

/** Revisions of the specification are named by their date. */
const MCP_VERSION = /\b20\d\d-\d\d-\d\d\b/

/** Of an id in a message: the server may send any text as id. */
const MAX_ID_LENGTH = 40

/** What is shorter is no secret, and may be part of any word. */
const SECRET_LENGTH = 8

/** What a response without an answer means. */
export function refusalErrorFrom(refusal: Refusal, context: RefusalContext): TransportError {
  const { status, headers } = refusal
  const { url, session, errorTextBytes } = context
  const text = withoutId(refusal.text, context.sessionId ?? session?.id)
  const evidence = evidenceFrom(text, context.requestId, refusal.isPartial)
  const options = {
    status,
    url,
    bodyText: excerpt(text, errorTextBytes),
    serverError: serverErrorFrom(text),
    cause: refusal.cause,
  }
  const said =
    refusal.cause instanceof Error ? `: ${refusal.cause.message}` : sayFrom(evidence.text)
  if (session?.id !== undefined) {
    const challenged = headerValue(headers, 'www-authenticate') !== undefined
    const unproven = !session.isProven
    const verdict = lossVerdict({ status, ...evidence, challenged, unproven })
    if (verdict !== 'not-lost') {
      // A new session that is refused at once looks like a tool that fails in this way each time.
      const certain = verdict === 'lost' && context.isHeard !== true && !session.isDoubtful
      const message = `${url} no longer knows the session (HTTP ${status}${said})`
      return new TransportError('SESSION_LOST', message, {
        ...options,
        certain,
        epoch: session.epoch,
      })
    }
  }
  const otherVersion =
    session === undefined ? 'not-lost' : versionVerdict(refusal, session, context)
  if (session !== undefined && otherVersion !== 'not-lost') {
    const message = `${url} no longer speaks ${session.protocolVersion} (HTTP ${status}${said})`
    const certain = otherVersion === 'lost' && context.isHeard !== true && !session.isDoubtful
    return new TransportError('SESSION_LOST', message, {
      ...options,
      certain,
      epoch: session.epoch,
    })
  }
  const [code, what] = meaningOf(status)
  const isUnread =
    (code === 'UNAUTHORIZED' || REFUSED_UNREAD.includes(status)) &&
    evidence.errorId !== 'own' &&
    context.isHeard !== true
  return new TransportError(code, `${url} ${what} (HTTP ${status}${said})`, {
    ...options,
    retryAfterMs: retryAfterMs(headers),
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
 * Whether the server refuses the protocol version of a session that was negotiated before: it was replaced by
 * one of 2026-07-28, or by an older one. It refuses that before it dispatches the request.
 */
function versionVerdict(
  { status, text, isPartial }: Refusal,
  { protocolVersion }: LegacySession,
  { requestId }: RefusalContext,
): LossVerdict {
  const { code, text: said, errorId } = evidenceFrom(text, requestId, isPartial)
  if (status !== 400 || protocolVersion === undefined) return 'not-lost'
  if (code !== undefined && MODERN_CODES.includes(code)) {
    const data = serverErrorFrom(text)?.data
    const supported = isRecord(data) ? data['supported'] : undefined
    const isRefused = Array.isArray(supported) && !supported.includes(protocolVersion)
    return code === UNSUPPORTED_VERSION && isRefused ? 'lost' : 'ambiguous'
  }
  if (!/unsupported protocol version/i.test(said)) return 'not-lost'
  // Servers name the versions that they accept. Tools fail with such texts too: "unsupported protocol version TLS 1.0".
  return errorId === 'none' && MCP_VERSION.test(said) ? 'lost' : 'ambiguous'
}

function meaningOf(status: number): [TransportErrorCode, string] {
  if (status === 401) return ['UNAUTHORIZED', 'wants other credentials']
  if (status === 403) return ['UNAUTHORIZED', 'does not allow this']
  if (status < 300) return ['UNEXPECTED_RESPONSE', 'answered with something that is not MCP']
  return ['REJECTED', 'rejected the request']
}

/** The start of what the server said, for a message; markup says nothing to a reader. */
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

/** Servers like to say which session it is that they do not know. */
function withoutId(text: string, id: string | undefined): string {
  if (id === undefined || id.length < SECRET_LENGTH) return text
  return text.replaceAll(id, shortSessionId(id))
}

function serverErrorFrom(text: string): ServerError | undefined {
  try {
    const message = messageFrom(JSON.parse(text))
    return message !== undefined && 'error' in message ? message.error : undefined
  } catch {
    return undefined // not JSON
  }
}
