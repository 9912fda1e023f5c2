import { createHash } from 'node:crypto'
import { canonicalJson } from '@x/internal'
import { headerValue, POST_HEADERS } from '../headers.ts'
import type { Refusal, AnswerOutcome } from '../http/answer-reader.ts'
import type { Exchange } from '../http/exchange.ts'
import type { HttpClient } from '../http/http-client.ts'
import { isAnswerTo, isResponse } from '../json-rpc.ts'
import type { JsonRpcMessage, JsonRpcRequest, JsonRpcResponse } from '../json-rpc.ts'
import {
  isSessionId,
  isInitializeResult,
  LEGACY_VERSIONS,
  MODERN_CODES,
} from '../session-record.ts'
import type { InitializeResult } from '../session-record.ts'
import { TransportError } from '../transport-error.ts'
import { LegacySession, RequestIds } from './legacy-session.ts'
import { misroutedError, toRefusalError, parseEvidence, lossVerdict } from './session-loss.ts'

export type HandshakeOutcome =
  | {
      readonly kind: 'opened'
      readonly sessionId: string | undefined
      readonly result: InitializeResult
    }
  /** The server answered with a JSON-RPC error. */
  | { readonly kind: 'answered'; readonly answer: JsonRpcResponse }
  | {
      readonly kind: 'failed'
      readonly error: TransportError
      /** The response of the server, if it refused the request. */
      readonly refusal?: Refusal | undefined
    }

export interface HandshakeOptions {
  readonly http: HttpClient
  /** The client's `initialize`. */
  readonly request: JsonRpcRequest
  /** Time limit until the response head, in milliseconds; 0 for none. */
  readonly headersMs: number
  /**
   * Set only to find out whether a stored id without a record is still valid. Otherwise `initialize` carries no
   * session.
   */
  readonly sessionId?: string | undefined
  readonly protocolVersion?: string | undefined
  /** Called with each message that arrives before the answer. */
  readonly onMessage: (message: JsonRpcMessage) => void
  /** `HttpRequest.onStart` */
  readonly onStart: (exchange: Exchange) => boolean
  /** Called synchronously with the id of a session that came with a valid answer. */
  readonly onAssigned: (sessionId: string) => void
  /**
   * Called with the id of a session that remains unused, because there was no answer or an invalid one. Called
   * immediately, before anything open can be closed. Without a response head, the id is unknown.
   */
  readonly onUnused: (sessionId: string) => void
}

/** Sends `initialize` (2025-11-25, lifecycle). The session id is taken only from this response. */
export async function handshake(options: HandshakeOptions): Promise<HandshakeOutcome> {
  const { http, request, headersMs, sessionId, protocolVersion, onMessage } = options
  const { onStart, onAssigned, onUnused } = options
  let assigned: string | undefined
  let answer: JsonRpcResponse | undefined
  let misrouted: JsonRpcResponse | undefined
  const notifyAssigned = (listener: (id: string) => void): void => {
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
              notifyAssigned(verdict.kind === 'opened' ? onAssigned : onUnused)
              return resolve(verdict)
            }
            // A misrouted answer may carry the session of another client, which must not be terminated.
            if (misrouted === undefined) notifyAssigned(onUnused)
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
                const error = toRefusalError(refusal, {
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
 * Returns a digest of the client's `initialize` parameters. A session is valid only for the capabilities that
 * it was opened with.
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

export interface LiveSessionOptions {
  readonly http: HttpClient
  readonly sessionId: string
  /** Version negotiated by the client that opened the session, if known. */
  readonly protocolVersion: string | undefined
  /** Time limit until each response head, in milliseconds; 0 for none. */
  readonly headersMs: number
  /** 0 … 1 */
  readonly random: () => number
  readonly onMessage: (message: JsonRpcMessage) => void
  /** `HttpRequest.onStart` */
  readonly onStart: (exchange: Exchange) => boolean
}

export type LiveSession =
  | { readonly kind: 'live'; readonly result: InitializeResult }
  /** The server refuses requests in this session. */
  | { readonly kind: 'refused' }
  /** The state of the session is unknown: the connection failed, or the server is busy. */
  | { readonly kind: 'failed'; readonly error: TransportError }

type Answer =
  | { readonly kind: 'answered'; readonly answer: JsonRpcResponse }
  | Exclude<LiveSession, { kind: 'live' }>
  | { readonly kind: 'other-version' }

const LISTS = ['tools', 'prompts', 'resources'] as const
const METHOD_NOT_FOUND = -32601
const SILENCE_MS = 30_000

/**
 * Describes the server of a session that another client opened and of which only the id is known. Sends only
 * requests without side effects. The version is the known one, or the newest with which the server answers
 * `ping`. Capabilities are those whose list the server returns; list-changed notifications are assumed, so that
 * clients listen for them. Name, version, instructions and other capabilities of the server stay unknown.
 */
export async function describeLiveSession(options: LiveSessionOptions): Promise<LiveSession> {
  const { protocolVersion, http } = options
  const ids = RequestIds.inRandomBlock(options.random)
  let id = 0
  for (const version of protocolVersion === undefined ? LEGACY_VERSIONS : [protocolVersion]) {
    const ask = (method: string): Promise<Answer> =>
      askSession(options, { method, version, ids, id: id++ })
    const alive = await ask('ping')
    if (alive.kind === 'other-version') continue
    if (alive.kind !== 'answered') return alive
    const answers = await Promise.all(LISTS.map((name) => ask(`${name}/list`)))
    const capabilities: Record<string, unknown> = {}
    for (const [n, name] of LISTS.entries()) {
      const said = answers[n]
      if (said?.kind === 'refused' || said?.kind === 'failed') return said
      if (said?.kind === 'answered' && !isUnknownMethod(said.answer)) {
        capabilities[name] = { listChanged: true }
      }
    }
    const serverInfo = { name: new URL(http.url.display).host, version: '0' }
    return { kind: 'live', result: { protocolVersion: version, capabilities, serverInfo } }
  }
  return { kind: 'refused' }
}

/**
 * Returns whether the server still knows a session, by a `ping`. Repeats it once after a connection failure.
 */
export async function pingSession(
  options: LiveSessionOptions & { readonly protocolVersion: string },
): Promise<'live' | Exclude<LiveSession, { kind: 'live' }>> {
  const ids = RequestIds.inRandomBlock(options.random)
  const ask = (id: number): Promise<Answer> =>
    askSession(options, { method: 'ping', version: options.protocolVersion, ids, id })
  const first = await ask(0)
  const answer = first.kind === 'failed' ? await ask(1) : first
  return answer.kind === 'refused' || answer.kind === 'failed' ? answer : 'live'
}

async function askSession(
  { http, sessionId, headersMs, onMessage, onStart }: LiveSessionOptions,
  asked: {
    readonly method: string
    readonly version: string
    readonly ids: RequestIds
    readonly id: number
  },
): Promise<Answer> {
  const { method, version: protocolVersion, ids, id } = asked
  const session = new LegacySession({
    id: sessionId,
    epoch: 0,
    protocolVersion,
    isResumed: true,
    ids,
  })
  const wireId = ids.toWire(id)
  let answer: JsonRpcResponse | undefined
  let misrouted: JsonRpcResponse | undefined
  const outcome = await new Promise<AnswerOutcome>((resolve, reject) => {
    http
      .send(
        {
          method: 'POST',
          rpcMethod: method,
          era: 'legacy',
          sessionId,
          headers: session.postHeaders,
          body: JSON.stringify({ jsonrpc: '2.0', id: wireId, method }),
          headersMs,
          idleMs: SILENCE_MS,
          onStart,
        },
        {
          message: (message) => {
            if (!isResponse(message)) onMessage(message)
            else if (isAnswerTo(wireId, message)) answer ??= message
            else misrouted = message
          },
          outcome: resolve,
        },
      )
      .catch((error: unknown) => {
        if (TransportError.is(error)) resolve({ kind: 'failed', error })
        else reject(error)
      })
  })
  if (answer !== undefined) {
    const isRefused =
      'error' in answer &&
      lossVerdict({ status: 200, ...parseEvidence(JSON.stringify(answer)) }) !== 'not-lost'
    return isRefused ? { kind: 'refused' } : { kind: 'answered', answer }
  }
  const { display: url } = http.url
  switch (outcome.kind) {
    case 'failed':
      return outcome
    case 'ended': {
      if (misrouted !== undefined) {
        return { kind: 'failed', error: misroutedError({ url }, wireId, misrouted) }
      }
      const message = `${url} ended its response to ${method} without an answer`
      return { kind: 'failed', error: new TransportError('OUTCOME_UNKNOWN', message, { url }) }
    }
    case 'refused': {
      const { refusal } = outcome
      const { status, text } = refusal
      const { code } = parseEvidence(text)
      const isModern = code !== undefined && MODERN_CODES.includes(code)
      if (status === 400 && !isModern && /protocol version/i.test(text)) {
        return { kind: 'other-version' }
      }
      const { errorTextBytes } = http.limits
      const error = toRefusalError(refusal, { url, session, errorTextBytes })
      const isOfSession = error.code === 'SESSION_LOST' || status === 400 || status === 404
      return isOfSession ? { kind: 'refused' } : { kind: 'failed', error }
    }
  }
}

function isUnknownMethod(answer: JsonRpcResponse): boolean {
  return 'error' in answer && answer.error.code === METHOD_NOT_FOUND
}
