import { headerValue } from '../headers.ts'
import type { ResponseHeaders } from '../headers.ts'
import type { AnswerOutcome } from '../http/answer-reader.ts'
import type { Exchange } from '../http/exchange.ts'
import type { HttpClient, HttpRequest } from '../http/http-client.ts'
import type { JsonRpcNotification, JsonRpcResponse } from '../json-rpc.ts'
import { isSessionId } from '../session-record.ts'
import { TransportError } from '../transport-error.ts'
import { RequestIds, LegacySession } from './legacy-session.ts'
import { isLostSession, toRefusalError } from './session-loss.ts'

/** Callers have no time limit for these requests. */
const ONE_WAY_MS = 30_000
/** A client that closes must not wait for a silent server. A slow server still receives the DELETE. */
const DELETE_MS = 800

/**
 * Posts a notification or a response, within `limitMs` if given. Every 2xx is an acceptance. Reads the complete
 * body, so that the connection can be reused.
 *
 * @throws TransportError if it was not accepted.
 */
export async function postAndForget(
  http: HttpClient,
  message: JsonRpcNotification | JsonRpcResponse,
  { session, limitMs }: { readonly session: LegacySession; readonly limitMs?: number | undefined },
): Promise<void> {
  const request = {
    method: 'POST',
    rpcMethod: 'method' in message ? message.method : undefined,
    isOfCaller: true,
    era: 'legacy',
    sessionId: session.id,
    headers: session.postHeaders,
    body: JSON.stringify(message),
    headersMs: ONE_WAY_MS,
    idleMs: ONE_WAY_MS,
  } as const
  const outcome = await (limitMs === undefined ? send : sendWithin(limitMs))(http, request)
  if (outcome.kind === 'failed') throw outcome.error
  if (outcome.kind === 'ended' || isSuccess(outcome.refusal.status)) return
  throw toRefusalError(outcome.refusal, {
    url: http.url.display,
    session,
    errorTextBytes: http.limits.errorTextBytes,
  })
}

/**
 * Sends DELETE (2025-11-25, transports, session management). Also succeeds if the server has forgotten the
 * session or does not support DELETE.
 *
 * @throws TransportError if the session may still exist on the server.
 */
export async function deleteSession(http: HttpClient, session: LegacySession): Promise<void> {
  const outcome = await sendWithin(DELETE_MS)(http, {
    method: 'DELETE',
    era: 'legacy',
    sessionId: session.id,
    headers: session.headers,
    headersMs: 0,
    idleMs: 0,
  })
  if (outcome.kind === 'failed') throw outcome.error
  if (outcome.kind === 'ended') return
  const { status } = outcome.refusal
  const isGone = isLostSession(outcome.refusal) || status === 404
  if (isSuccess(status) || isGone || status === 405) return
  throw toRefusalError(outcome.refusal, {
    url: http.url.display,
    session: undefined,
    sessionId: session.id,
    errorTextBytes: http.limits.errorTextBytes,
  })
}

/**
 * Terminates a session that a server assigned to a request without one. It would stay unused (python-sdk
 * #3228).
 */
export function endAssignedSession(http: HttpClient, headers: ResponseHeaders | undefined): void {
  const id = headers === undefined ? undefined : headerValue(headers, 'mcp-session-id')
  if (!isSessionId(id)) return
  const unused = new LegacySession({
    id,
    epoch: 0,
    protocolVersion: undefined,
    isResumed: false,
    ids: RequestIds.asTheyAre(),
  })
  deleteSession(http, unused).catch(() => {}) // best effort
}

function isSuccess(status: number): boolean {
  return status >= 200 && status < 300
}

/** Limits the whole request, including connecting. */
function sendWithin(limitMs: number): typeof send {
  return async (http, request) => {
    let timer: NodeJS.Timeout | undefined
    const onStart = (exchange: Exchange): boolean => {
      const url = http.url.display
      const error = new TransportError('TIMEOUT', `${url} sent no answer in ${limitMs} ms`, { url })
      timer ??= setTimeout(() => exchange.abort(error), limitMs).unref()
      return true
    }
    const outcome = await send(http, { ...request, onStart })
    clearTimeout(timer)
    return outcome
  }
}

function send(http: HttpClient, request: HttpRequest): Promise<AnswerOutcome> {
  return new Promise((resolve, reject) => {
    http.send(request, { message: () => {}, outcome: resolve }).catch((error: unknown) => {
      if (TransportError.is(error)) resolve({ kind: 'failed', error })
      else reject(error)
    })
  })
}
