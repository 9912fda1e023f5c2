import { headerValue } from '../headers.ts'
import type { ResponseHeaders } from '../headers.ts'
import type { AnswerOutcome } from '../http/answer-reader.ts'
import type { Exchange } from '../http/exchange.ts'
import type { HttpClient, HttpRequest } from '../http/http-client.ts'
import type { JsonRpcNotification, JsonRpcResponse } from '../json-rpc.ts'
import { isSessionId } from '../session-record.ts'
import { TransportError } from '../transport-error.ts'
import { RequestIds, LegacySession } from './legacy-session.ts'
import { toRefusalError, parseEvidence, lossVerdict } from './session-loss.ts'

/** Nobody above has a timer for these, so they have one of their own. */
const ONE_WAY_MS = 30_000
/** A client that closes must not wait for a silent server. One that is only slow has the DELETE, all the same. */
const DELETE_MS = 800

/**
 * Posts a notification or a reply, within `limitMs` where there is one. Any 2xx is acceptance; the body is read to its end, so that the
 * connection can be used again.
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
 * DELETE (2025-11-25, transports, session management). A server that has forgotten the session, or
 * does not let clients end one, is as good as done.
 *
 * @throws TransportError if the session may still be there.
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
  const { status, text } = outcome.refusal
  const isGone = lossVerdict({ status, ...parseEvidence(text) }) !== 'not-lost'
  if (isSuccess(status) || isGone || status === 404 || status === 405) return
  throw toRefusalError(outcome.refusal, {
    url: http.url.display,
    session: undefined,
    sessionId: session.id,
    errorTextBytes: http.limits.errorTextBytes,
  })
}

/** Some servers mint a session for any request without one; nobody will use it (python-sdk #3228). */
export function endAssignedSession(http: HttpClient, headers: ResponseHeaders | undefined): void {
  const id = headers === undefined ? undefined : headerValue(headers, 'mcp-session-id')
  if (!isSessionId(id)) return
  const orphan = new LegacySession({
    id,
    epoch: 0,
    protocolVersion: undefined,
    isResumed: false,
    ids: RequestIds.asTheyAre(),
  })
  deleteSession(http, orphan).catch(() => {}) // best effort
}

function isSuccess(status: number): boolean {
  return status >= 200 && status < 300
}

/** With a limit for all of it, connecting included. */
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
