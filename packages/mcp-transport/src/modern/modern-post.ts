import { isRecord } from '@x/internal'
import { headerValue, POST_HEADERS } from '../headers.ts'
import type { ResponseHeaders } from '../headers.ts'
import type { AnswerOutcome, Refusal } from '../http/answer-reader.ts'
import type { Exchange } from '../http/exchange.ts'
import type { HttpClient } from '../http/http-client.ts'
import { isAnswerTo, isResponse } from '../json-rpc.ts'
import type { JsonRpcMessage, JsonRpcRequest, JsonRpcResponse } from '../json-rpc.ts'
import {
  parseEvidence,
  misroutedError,
  toRefusalError,
  lossVerdict,
} from '../legacy/session-loss.ts'
import type { ErrorId } from '../legacy/session-loss.ts'
import { MODERN_CODES } from '../session-record.ts'
import type { ToolHeader } from '../session-record.ts'
import { TransportError } from '../transport-error.ts'
import { encodeHeaderValue, toolHeaderList } from './tools.ts'

/** Result of one request in the stateless revision. */
export type PostOutcome =
  /** An answer of the server: a result, or an error of any HTTP status. */
  | {
      readonly kind: 'answered'
      readonly answer: JsonRpcResponse
      readonly status: number
      readonly headers: ResponseHeaders
      /** Which id an error carries, see `LossEvidence.errorId`. @default 'own' */
      readonly errorId?: ErrorId | undefined
    }
  | {
      readonly kind: 'failed'
      readonly error: TransportError
      /** The response was complete, and contained no answer. */
      readonly isWhole?: boolean | undefined
      /** Headers of the response, if there was one. */
      readonly headers?: ResponseHeaders | undefined
      /** Which id a refusal carries, see `LossEvidence.errorId`. @default 'own' */
      readonly errorId?: ErrorId | undefined
    }

export interface ModernPostOptions {
  readonly http: HttpClient
  /** `HttpRequest.isOfCaller` */
  readonly isOfCaller?: boolean | undefined
  /** The request with its final id. */
  readonly request: JsonRpcRequest
  /** The transport's own headers, as a flat list. */
  readonly headers: readonly string[]
  /** Time limit until the response head, in milliseconds; 0 for none. */
  readonly headersMs: number
  /** Time limit without data on the stream, in milliseconds; 0 for none. */
  readonly idleMs?: number | undefined
  /** Called for each piece of the response. */
  readonly onActivity?: (() => void) | undefined
  /** Called with each notification of this request, in order. */
  readonly onMessage: (message: JsonRpcMessage) => void
  /**
   * Called with the exchange before the request is sent. Abort the exchange to cancel the request; return false
   * not to send it.
   */
  readonly onExchange?: ((exchange: Exchange) => boolean) | undefined
  /** `HttpRequest.onPause` */
  readonly onPause?: ((isPaused: boolean) => void) | undefined
}

/**
 * Sends one request by POST (2026-07-28, streamable-http). Streams cannot be resumed: if one breaks before the
 * answer, the request fails.
 */
export function modernPost(options: ModernPostOptions): Promise<PostOutcome> {
  const { http, request, headersMs, idleMs = 0, onMessage, onExchange } = options
  const body = toBody(request)
  if (TransportError.is(body)) return Promise.resolve({ kind: 'failed', error: body })
  return new Promise((resolve, reject) => {
    let head: { status: number; headers: ResponseHeaders } = { status: 200, headers: {} }
    let exchange: Exchange | undefined
    let isAnswered = false
    let misrouted: JsonRpcResponse | undefined
    const isLongLived = request.method === 'subscriptions/listen'
    const sent = http.send(
      {
        method: 'POST',
        rpcMethod: request.method,
        isOfCaller: options.isOfCaller,
        era: 'modern',
        headers: options.headers,
        body,
        headersMs,
        idleMs,
        isLongLived,
        onStart: (started) => {
          exchange = started
          return onExchange?.(started) ?? true
        },
        onPause: options.onPause,
      },
      {
        activity: options.onActivity,
        head: (status, headers) => {
          head = { status, headers }
        },
        message: (message) => {
          if (isAnswered) return
          if (!isResponse(message)) return onMessage(message)
          if (!isAnswerTo(request.id, message)) {
            misrouted = message
            return
          }
          isAnswered = true
          if (exchange?.isDone === false && !isLongLived) http.lingering.add(exchange)
          resolve({ kind: 'answered', answer: message, ...head })
        },
        outcome: (outcome) => {
          if (!isAnswered) resolve(endedWithoutAnswer(outcome, { ...head, misrouted }, options))
          else if (exchange !== undefined) http.lingering.remove(exchange)
        },
      },
    )
    sent.catch((error: unknown) => {
      if (TransportError.is(error)) resolve({ kind: 'failed', error })
      else reject(error)
    })
  })
}

interface ReceivedParts {
  readonly status: number
  readonly headers: ResponseHeaders
  /** An answer with the id of another request. */
  readonly misrouted: JsonRpcResponse | undefined
}

function endedWithoutAnswer(
  outcome: AnswerOutcome,
  { status, headers, misrouted }: ReceivedParts,
  { http, request }: ModernPostOptions,
): PostOutcome {
  const url = http.url.display
  switch (outcome.kind) {
    case 'failed':
      return { kind: 'failed', error: outcome.error, headers }
    case 'ended': {
      if (misrouted !== undefined) {
        const error = misroutedError({ url, status }, request.id, misrouted)
        return { kind: 'failed', error, isWhole: true, headers }
      }
      const code = outcome.isStream ? 'OUTCOME_UNKNOWN' : 'UNEXPECTED_RESPONSE'
      const message = `${url} ended its response without an answer`
      const error = new TransportError(code, message, { url, status })
      return { kind: 'failed', error, isWhole: true, headers }
    }
    case 'refused': {
      const { refusal } = outcome
      const { errorTextBytes } = http.limits
      const error = toRefusalError(refusal, {
        url,
        session: undefined,
        requestId: request.id,
        errorTextBytes,
      })
      const { serverError } = error
      const { status: refused, headers: given, text, isPartial } = refusal
      const { errorId } = parseEvidence(text, request.id, isPartial)
      // The transport handles refused credentials and overload. Other JSON-RPC errors are answers.
      if (serverError === undefined || error.code === 'UNAUTHORIZED' || isOverload(refusal)) {
        return { kind: 'failed', error, isWhole: true, headers: given, errorId }
      }
      const answer = { jsonrpc: '2.0', id: request.id, error: serverError } as const
      return { kind: 'answered', answer, status: refused, headers: given, errorId }
    }
  }
}

/** The server refused the request before it read it: the error has no request id. */
function isOverload({ status, text, isPartial }: Refusal): boolean {
  const { errorId } = parseEvidence(text, undefined, isPartial)
  return (status === 429 || status >= 500) && errorId === 'none'
}

function toBody(request: JsonRpcRequest): string | TransportError {
  try {
    return JSON.stringify(request)
  } catch (cause) {
    return new TransportError('CONFIG', 'The request cannot be written as JSON: nothing was sent', {
      cause,
    })
  }
}

/** Code with which servers with sessions answer requests without one. Not defined in 2026-07-28. */
const NO_SESSION = -32000

/**
 * Returns whether a response looks like that of a server with sessions (2026-07-28, basic/versioning). Such
 * servers answer 400 with a text about a session, or assign a session to a request without one. A modern server
 * never mentions sessions.
 */
export function looksLegacy(outcome: PostOutcome): boolean {
  const said = refusalFrom(outcome)
  if (said === undefined) return false
  const { status, code, text } = said
  const isJudged = status < 500 && status !== 401 && status !== 403 && status !== 429
  if (!isJudged || (code !== undefined && MODERN_CODES.includes(code))) return false
  if (
    outcome.headers !== undefined &&
    headerValue(outcome.headers, 'mcp-session-id') !== undefined
  ) {
    return true
  }
  if (status < 400) return false
  if (status === 400 && code === NO_SESSION) return true
  return lossVerdict({ status: 400, code, text }) !== 'not-lost' // with status 400, only the text decides
}

/** Returns whether a server with sessions gave this response before it dispatched the request. */
export function isBeforeDispatch(outcome: PostOutcome): boolean {
  const said = refusalFrom(outcome)
  if (said === undefined) return false
  const { status, code, errorId } = said
  // The answer to a dispatched request has the id of the request.
  if (status === 400 && code !== undefined) return errorId === 'none'
  return lossVerdict(said) === 'lost'
}

interface SaidRefusal {
  readonly status: number
  readonly code?: number | undefined
  readonly text: string
  readonly errorId: ErrorId
}

function refusalFrom(outcome: PostOutcome): SaidRefusal | undefined {
  const { errorId = 'own' } = outcome
  if (outcome.kind === 'answered') {
    if ('result' in outcome.answer) return undefined
    const { code, message } = outcome.answer.error
    return { status: outcome.status, code, text: message, errorId }
  }
  const { status, bodyText = '' } = outcome.error
  // The text may be cut off, so the id comes from the complete body.
  return status === undefined ? undefined : { status, ...parseEvidence(bodyText), errorId }
}

/** Reserved keys of `_meta` (2026-07-28, basic). */
export const META = {
  protocolVersion: 'io.modelcontextprotocol/protocolVersion',
  clientCapabilities: 'io.modelcontextprotocol/clientCapabilities',
  clientInfo: 'io.modelcontextprotocol/clientInfo',
  logLevel: 'io.modelcontextprotocol/logLevel',
  subscriptionId: 'io.modelcontextprotocol/subscriptionId',
} as const

/** Description of the client in every request. A stateless server does not remember it. */
export interface ClientIdentity {
  readonly protocolVersion: string
  readonly capabilities: Readonly<Record<string, unknown>>
  readonly clientInfo: unknown
  /** Minimum level of `notifications/message`. */
  readonly logLevel?: string | undefined
}

/** Returns the identity from the client's `initialize`, without fields that this revision does not have. */
export function toIdentity(initialize: JsonRpcRequest, protocolVersion: string): ClientIdentity {
  const { capabilities, clientInfo } = initialize.params ?? {}
  const { tasks: _tasks, roots, ...kept } = isRecord(capabilities) ? capabilities : {}
  return {
    protocolVersion,
    capabilities: { ...kept, ...(isRecord(roots) ? { roots: {} } : {}) },
    clientInfo,
  }
}

/** Adds the identity to `_meta` of `params`. */
export function withIdentity(
  params: Readonly<Record<string, unknown>> | undefined,
  identity: ClientIdentity,
): Record<string, unknown> {
  const given = params?.['_meta']
  const { protocolVersion, capabilities, clientInfo, logLevel } = identity
  return {
    ...params,
    _meta: {
      ...(isRecord(given) ? given : {}),
      [META.protocolVersion]: protocolVersion,
      [META.clientCapabilities]: capabilities,
      ...(clientInfo === undefined ? {} : { [META.clientInfo]: clientInfo }),
      ...(logLevel === undefined ? {} : { [META.logLevel]: logLevel }),
    },
  }
}

/** Returns whether the client speaks the stateless revision. Such requests are sent unchanged. */
export function isModernRequest(request: JsonRpcRequest): boolean {
  const meta = request.params?.['_meta']
  return isRecord(meta) && typeof meta[META.protocolVersion] === 'string'
}

/** Parameter that `Mcp-Name` repeats, by method. */
const NAMED_BY: Readonly<Record<string, string>> = {
  'tools/call': 'name',
  'prompts/get': 'name',
  'resources/read': 'uri',
}

/** Headers that repeat parts of the body, so that gateways need not parse it, as a flat list. */
export function modernHeaders(
  request: JsonRpcRequest,
  protocolVersion: string,
  toolHeaders: readonly ToolHeader[] = [],
): string[] {
  const { method, params } = request
  const list = [...POST_HEADERS, 'mcp-protocol-version', protocolVersion, 'mcp-method', method]
  const name = params?.[NAMED_BY[method] ?? '']
  if (typeof name === 'string') list.push('mcp-name', encodeHeaderValue(name))
  if (method === 'tools/call') list.push(...toolHeaderList(toolHeaders, params?.['arguments']))
  return list
}
