import { createHash } from 'node:crypto'
import { canonicalJson } from '@x/internal'
import type { Refusal } from '../http/answer-reader.ts'
import type { Exchange } from '../http/exchange.ts'
import type { HttpClient } from '../http/http-client.ts'
import { headerValue } from '../http/response-headers.ts'
import { isAnswerTo, isResponse } from '../json-rpc.ts'
import type { JsonRpcMessage, JsonRpcRequest, JsonRpcResponse } from '../json-rpc.ts'
import { isSessionId } from '../session-id.ts'
import { isInitializeResult } from '../session-record.ts'
import type { InitializeResult } from '../session-record.ts'
import { TransportError } from '../transport-error.ts'
import { POST_HEADERS } from '../http/post-headers.ts'
import { misroutedError, refusalErrorFrom } from '../refusal-error.ts'

export type HandshakeOutcome =
  | {
      readonly kind: 'opened'
      readonly sessionId: string | undefined
      readonly result: InitializeResult
    }
  /** The server answered with an error of its own. */
  | { readonly kind: 'answered'; readonly answer: JsonRpcResponse }
  | {
      readonly kind: 'failed'
      readonly error: TransportError
      /** With what the server refused, if it was the server that did. */
      readonly refusal?: Refusal | undefined
    }

export interface HandshakeOptions {
  readonly http: HttpClient
  /** The client's `initialize`. */
  readonly request: JsonRpcRequest
  /** Limit for the response head, in milliseconds; 0 for none. */
  readonly headersMs: number
  /** Only to find out whether a bare stored id still lives; else `initialize` carries no session. */
  readonly sessionId?: string | undefined
  readonly protocolVersion?: string | undefined
  /** What else the server says before it answers. */
  readonly onMessage: (message: JsonRpcMessage) => void
  /** `HttpRequest.onStart` */
  readonly onStart: (exchange: Exchange) => boolean
  /** Told of a session that the server has assigned with a valid answer, in the turn in which it came. */
  readonly onAssigned: (sessionId: string) => void
  /**
   * Told of a session that the server has assigned and nobody will use, because there was no answer, or none
   * that can be used. At once: before anything that is open can be closed. Where not even the response head
   * has come, nobody can know whether there is a session.
   */
  readonly onOrphan: (sessionId: string) => void
}

/**
 * `initialize`, over the wire (2025-11-25, lifecycle). The session id is taken from this response and
 * from no other.
 */
export async function handshake(options: HandshakeOptions): Promise<HandshakeOutcome> {
  const { http, request, headersMs, sessionId, protocolVersion, onMessage } = options
  const { onStart, onAssigned, onOrphan } = options
  let assigned: string | undefined
  let answer: JsonRpcResponse | undefined
  let misrouted: JsonRpcResponse | undefined
  const tellAssigned = (listener: (id: string) => void): void => {
    if (assigned === undefined || assigned === sessionId || !isSessionId(assigned)) return
    listener(assigned)
  }
  return new Promise<HandshakeOutcome>((resolve, reject) => {
    http
      .send(
        {
          method: 'POST',
          rpcMethod: request.method,
          era: 'legacy',
          sessionId,
          headers: [
            ...POST_HEADERS,
            ...(sessionId === undefined ? [] : ['mcp-session-id', sessionId]),
            ...(protocolVersion === undefined ? [] : ['mcp-protocol-version', protocolVersion]),
          ],
          body: JSON.stringify(request),
          headersMs,
          idleMs: 0,
          onStart,
        },
        {
          head: (_status, headers) => {
            assigned = headerValue(headers, 'mcp-session-id')
          },
          message: (message) => {
            if (!isResponse(message)) onMessage(message)
            else if (isAnswerTo(request.id, message)) answer ??= message
            else misrouted = message
          },
          outcome: (outcome) => {
            const url = http.url.display
            if (answer !== undefined) {
              const verdict = judged(answer, assigned, url)
              tellAssigned(verdict.kind === 'opened' ? onAssigned : onOrphan)
              return resolve(verdict)
            }
            // With the answer to another request may come the session of another client: it is not ended.
            if (misrouted === undefined) tellAssigned(onOrphan)
            switch (outcome.kind) {
              case 'ended': {
                const error =
                  misrouted === undefined
                    ? unanswered(url)
                    : misroutedError({ url }, request.id, misrouted)
                return resolve({ kind: 'failed', error })
              }
              case 'failed':
                return resolve({ kind: 'failed', error: outcome.error })
              case 'refused': {
                const { refusal } = outcome
                const { errorTextBytes } = http.limits
                const error = refusalErrorFrom(refusal, {
                  url,
                  session: undefined,
                  sessionId,
                  errorTextBytes,
                })
                return resolve({ kind: 'failed', error, refusal })
              }
            }
          },
        },
      )
      .catch((error: unknown) => {
        if (TransportError.is(error)) resolve({ kind: 'failed', error })
        else reject(error)
      })
  })
}

/**
 * Digest of what a client tells of itself. A session was opened with *these* capabilities: a client
 * with others needs a session of its own.
 */
export function initializeParamsHash(request: JsonRpcRequest): string {
  const { capabilities, clientInfo } = request.params ?? {}
  return createHash('sha256')
    .update(canonicalJson({ capabilities, clientInfo }))
    .digest()
    .toString('hex', 0, 16)
}

function judged(
  answer: JsonRpcResponse,
  sessionId: string | undefined,
  url: string,
): HandshakeOutcome {
  if (!('result' in answer)) return { kind: 'answered', answer }
  const { result } = answer
  if (!isInitializeResult(result)) {
    const message = `${url} answered initialize without protocolVersion, capabilities or serverInfo`
    return {
      kind: 'failed',
      error: new TransportError('UNEXPECTED_RESPONSE', message, { url }),
    }
  }
  if (sessionId !== undefined && !isSessionId(sessionId)) {
    const message = `${url} assigned a session id that is not visible ASCII of at most 1 KiB`
    return { kind: 'failed', error: new TransportError('UNEXPECTED_RESPONSE', message, { url }) }
  }
  return { kind: 'opened', sessionId, result }
}

function unanswered(url: string): TransportError {
  return new TransportError(
    'OUTCOME_UNKNOWN',
    `${url} ended its response to initialize without an answer`,
    { url },
  )
}
