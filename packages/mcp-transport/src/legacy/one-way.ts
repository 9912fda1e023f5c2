import type { AnswerOutcome } from '../http/answer-reader.ts'
import type { HttpClient } from '../http/http-client.ts'
import type { HttpRequest } from '../http/http-request.ts'
import type { JsonRpcNotification, JsonRpcResponse } from '../json-rpc.ts'
import { TransportError } from '../transport-error.ts'
import type { LegacySession } from './legacy-session.ts'
import { refusalErrorFrom } from '../refusal-error.ts'
import { evidenceFrom, lossVerdict } from './session-loss.ts'

/** Nobody above has a timer for these, so they have one of their own. */
const ONE_WAY_MS = 30_000
const DELETE_MS = 5000

/**
 * Posts a notification or a reply. Any 2xx is acceptance; the body is read to its end, so that the
 * connection can be used again.
 *
 * @throws TransportError if it was not accepted.
 */
export async function postAndForget(
  http: HttpClient,
  message: JsonRpcNotification | JsonRpcResponse,
  session: LegacySession,
): Promise<void> {
  const outcome = await send(http, {
    method: 'POST',
    rpcMethod: 'method' in message ? message.method : undefined,
    era: 'legacy',
    sessionId: session.id,
    headers: session.postHeaders,
    body: JSON.stringify(message),
    headersMs: ONE_WAY_MS,
    idleMs: ONE_WAY_MS,
  })
  if (outcome.kind === 'failed') throw outcome.error
  if (outcome.kind === 'ended' || isSuccess(outcome.refusal.status)) return
  throw refusalErrorFrom(outcome.refusal, {
    url: http.url.display,
    session,
    errorTextBytes: http.limits.errorTextBytes,
  })
}

/**
 * DELETE (2025-11-25, transports, session management). A server that has forgotten the session, or
 * does not let clients end one, is as good as done.
 *
 * @throws TransportError if the session may still be there.
 */
export async function deleteSession(http: HttpClient, session: LegacySession): Promise<void> {
  const outcome = await send(http, {
    method: 'DELETE',
    era: 'legacy',
    sessionId: session.id,
    headers: session.headers,
    headersMs: DELETE_MS,
    idleMs: DELETE_MS,
  })
  if (outcome.kind === 'failed') throw outcome.error
  if (outcome.kind === 'ended') return
  const { status, text } = outcome.refusal
  const isGone = lossVerdict({ status, ...evidenceFrom(text) }) !== 'not-lost'
  if (isSuccess(status) || isGone || status === 404 || status === 405) return
  throw refusalErrorFrom(outcome.refusal, {
    url: http.url.display,
    session: undefined,
    sessionId: session.id,
    errorTextBytes: http.limits.errorTextBytes,
  })
}

function isSuccess(status: number): boolean {
  return status >= 200 && status < 300
}

function send(http: HttpClient, request: HttpRequest): Promise<AnswerOutcome> {
  return new Promise((resolve, reject) => {
    http.send(request, { message: () => {}, outcome: resolve }).catch((error: unknown) => {
      if (TransportError.is(error)) resolve({ kind: 'failed', error })
      else reject(error)
    })
  })
}
