import { isSessionId } from '@x/internal'
import { headerValue, mediaType } from '../headers.ts'
import type { ResponseHeaders } from '../headers.ts'
import type { AnswerOutcome, Refusal } from '../http/answer-reader.ts'
import type { Exchange, HttpRequest } from '../http/exchange.ts'
import type { HttpClient } from '../http/http-client.ts'
import type { JsonRpcNotification, JsonRpcResponse } from '../json-rpc.ts'
import { sessionHeaders } from './legacy-session.ts'
import type { LegacySession } from './legacy-session.ts'
import { isLostSession, toRefusalError } from './session-loss.ts'

/** Callers have no time limit for these requests. */
const ONE_WAY_MS = 30_000
/** A client that closes must not wait for a silent server. A slow server still receives the DELETE. */
const DELETE_MS = 800

/**
 * Posts a notification or a response, within `limitMs` if given. Every 2xx is an acceptance. Reads the complete
 * body, so that the connection can be reused, but does not wait for the end of an event stream.
 *
 * @throws TransportError if it was not accepted.
 */
export async function postOneWay(
  http: HttpClient,
  message: JsonRpcNotification | JsonRpcResponse,
  {
    session,
    limitMs,
    callHeaders,
  }: Pick<HttpRequest, 'callHeaders'> & {
    readonly session: LegacySession
    readonly limitMs: number | undefined
  },
): Promise<void> {
  const refusal = await send(http, limitMs, {
    method: 'POST',
    isOfCaller: true,
    era: 'legacy',
    sessionId: session.id,
    headers: session.postHeaders,
    callHeaders,
    body: message,
    headersMs: ONE_WAY_MS,
    idleMs: ONE_WAY_MS,
  })
  if (refusal === undefined) return
  throw toRefusalError(refusal, http, { session })
}

/**
 * Sends DELETE (2025-11-25, transports, session management). Also succeeds if the server has forgotten the
 * session or does not support DELETE.
 *
 * @throws TransportError if the session may still exist on the server.
 */
export async function deleteSession(
  http: HttpClient,
  { id: sessionId, protocolVersion }: Pick<LegacySession, 'id' | 'protocolVersion'>,
): Promise<void> {
  const refusal = await send(http, DELETE_MS, {
    method: 'DELETE',
    era: 'legacy',
    sessionId,
    headers: sessionHeaders(sessionId, protocolVersion),
  })
  if (refusal === undefined || refusal.status === 404 || refusal.status === 405) return
  if (isLostSession(refusal)) return
  throw toRefusalError(refusal, http, { sessionId })
}

/** Terminates a session that stays unused. Best effort: the server ends it after a while. */
export function discardSession(http: HttpClient, id: string): void {
  http.inBackground(deleteSession(http, { id, protocolVersion: undefined }))
}

/** Discards a session that a server assigned to a request without one (python-sdk #3228). */
export function discardAssignedSession(http: HttpClient, headers: ResponseHeaders): void {
  const id = headerValue(headers, 'mcp-session-id')
  if (isSessionId(id)) discardSession(http, id)
}

/**
 * Sends a request that needs no answer. `limitMs` limits all of it, including credentials and connecting. Returns
 * the refusal, if the server did not accept the request.
 *
 * @throws TransportError if there was no response
 */
async function send(
  http: HttpClient,
  limitMs: number | undefined,
  request: HttpRequest,
): Promise<Refusal | undefined> {
  const limit = new AbortController()
  const onLate = (): void => {
    limit.abort(http.error('TIMEOUT', `${http.url.display} sent no answer in ${limitMs} ms`))
  }
  const timer = limitMs === undefined ? undefined : setTimeout(onLate, limitMs).unref()
  const outcome = await new Promise<AnswerOutcome>((resolve) => {
    let exchange: Exchange | undefined
    exchange = http.send(
      { ...request, signal: limit.signal },
      {
        // Some servers answer a notification with an event stream that stays open.
        head: (_status, headers) => {
          if (mediaType(headers) !== 'text/event-stream') return
          resolve({ kind: 'ended', isStream: true })
          http.answered(exchange)
        },
        message: () => {},
        outcome: resolve,
      },
    )
  })
  clearTimeout(timer)
  if (outcome.kind === 'ended') return undefined
  const { status = 0 } = outcome.kind === 'failed' ? outcome.error : outcome.refusal
  if (status >= 200 && status < 300) return undefined // also with a body that cannot be read
  if (outcome.kind === 'failed') throw outcome.error
  return outcome.refusal
}
