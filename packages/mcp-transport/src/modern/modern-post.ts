import { isRecord, TASKS_EXTENSION } from '@x/internal'
import { headerValue, POST_HEADERS } from '../headers.ts'
import type { ResponseHeaders } from '../headers.ts'
import type { Refusal } from '../http/answer-reader.ts'
import type { HttpClient } from '../http/http-client.ts'
import { RpcExchange } from '../http/rpc-exchange.ts'
import type { RpcListener, RpcReply, RpcRequest } from '../http/rpc-exchange.ts'
import { versionOf } from '../json-rpc.ts'
import type { JsonRpcRequest, JsonRpcResponse } from '../json-rpc.ts'
import {
  parseEvidence,
  misroutedError,
  toRefusalError,
  isRefusedUnread,
  lossVerdict,
} from '../legacy/session-loss.ts'
import type { LossEvidence } from '../legacy/session-loss.ts'
import { MODERN_CODES } from '../session-record.ts'
import type { TransportError } from '../transport-error.ts'
import { encodeHeaderValue } from './tools.ts'

export type PostOutcome = Answered | Refused | Failed

/** An answer of the server: a result, or an error of any HTTP status. */
interface Answered extends Pick<LossEvidence, 'status' | 'errorId'> {
  readonly kind: 'answered'
  readonly answer: JsonRpcResponse
  readonly headers: ResponseHeaders
}

/** A complete response without an answer. */
interface Refused extends Pick<LossEvidence, 'errorId'> {
  readonly kind: 'refused'
  readonly error: TransportError
  readonly headers: ResponseHeaders
}

/** No complete response. */
interface Failed extends Pick<Refused, 'error' | 'headers'> {
  readonly kind: 'failed'
}

/** A request of this revision, besides its body. `headers`: besides those that every request has. */
export interface ModernPostOptions extends Partial<
  Omit<RpcRequest, 'method' | 'era' | 'sessionId' | 'body' | 'isLongLived' | 'listener'>
> {
  /** Has the exchange as long as it waits for the answer. */
  readonly listener?: (RpcListener & { exchange?: RpcExchange | undefined }) | undefined
}

/**
 * Sends one request by POST (2026-07-28, streamable-http). Streams cannot be resumed: if one breaks before the
 * answer, the request fails. Aborting `signal` closes the stream, which cancels the request (2026-07-28,
 * basic/patterns/cancellation).
 *
 * @param request The request with its final id and the identity of the client
 */
export function modernPost(
  http: HttpClient,
  request: JsonRpcRequest,
  options: ModernPostOptions,
): Promise<PostOutcome> {
  const headers = modernHeaders(request, options.headers)
  const isLongLived = request.method === 'subscriptions/listen'
  const era = 'modern'
  const sent: RpcRequest = { ...options, method: 'POST', era, headers, body: request, isLongLived }
  return new Promise((resolve) => {
    const exchange = new RpcExchange(http, sent, (reply) =>
      resolve(toPostOutcome(reply, exchange, http)),
    )
    if (options.listener !== undefined) options.listener.exchange = exchange
    exchange.start()
  })
}

function toPostOutcome(
  reply: RpcReply,
  { request: { body }, status, headers, misrouted }: RpcExchange,
  http: HttpClient,
): PostOutcome {
  switch (reply.kind) {
    case 'answered':
      return { kind: 'answered', answer: reply.answer, status, headers, errorId: 'own' }
    case 'failed':
      return { kind: 'failed', error: reply.error, headers }
    case 'refused':
      return toRefused(reply.refusal, body, http)
    case 'ended': {
      const { display: url } = http.url
      const code = reply.isStream ? 'OUTCOME_UNKNOWN' : 'UNEXPECTED_RESPONSE'
      const error =
        misrouted === undefined
          ? http.error(code, `${url} ended its response without an answer`, { status })
          : misroutedError({ url, status }, body.id, misrouted)
      return { kind: 'refused', error, headers, errorId: 'own' }
    }
  }
}

/** The transport handles refused credentials and overload. Other JSON-RPC errors are answers. */
function toRefused(refusal: Refusal, request: JsonRpcRequest, http: HttpClient): PostOutcome {
  const { status, headers, text, isPartial } = refusal
  const { id } = request
  const error = toRefusalError(refusal, http, { requestId: id })
  const { errorId } = parseEvidence(text, id, isPartial)
  // Without a request id, the server refused the request before it read it.
  const isOverload = (status === 429 || status >= 500) && errorId === 'none'
  if (error.serverError === undefined || error.code === 'UNAUTHORIZED' || isOverload) {
    return { kind: 'refused', error, headers, errorId }
  }
  const answer = { jsonrpc: '2.0', id, error: error.serverError } as const
  return { kind: 'answered', answer, status, headers, errorId }
}

/** Code with which servers with sessions answer requests without one. Not defined in 2026-07-28. */
const NO_SESSION = -32000

/**
 * Returns whether a response looks like that of a server with sessions (2026-07-28, basic/versioning). Such
 * servers answer 400 with a text about a session, or assign a session to a request without one. A modern server
 * never mentions sessions. A refusal without an error of JSON-RPC, such as 404 or 405, may come from any server.
 */
export function looksLegacy(outcome: PostOutcome): boolean {
  if (outcome.kind === 'answered' && 'result' in outcome.answer) return false
  const said = refusalFrom(outcome)
  if (said === undefined) return false
  const { status, code } = said
  const isJudged = status < 500 && status !== 401 && status !== 403 && status !== 429
  if (!isJudged || (code !== undefined && MODERN_CODES.includes(code))) return false
  if (headerValue(outcome.headers, 'mcp-session-id') !== undefined) return true
  if (status < 400) return false
  if (outcome.kind === 'refused' && outcome.error.serverError === undefined) return true
  if (status === 400 && code === NO_SESSION) return true
  return lossVerdict({ ...said, status: 400, errorId: 'none' }) !== 'not-lost' // only the text decides
}

/** Returns whether a server with sessions gave this response before it dispatched the request. */
export function isBeforeDispatch(outcome: PostOutcome): boolean {
  const said = refusalFrom(outcome)
  if (said === undefined) return false
  const { status, code, errorId } = said
  // The answer to a dispatched request has the id of the request, and no session may be refused here.
  if (errorId === 'own') return false
  if (status === 400 && code !== undefined) return errorId === 'none'
  return lossVerdict(said) === 'lost' || isRefusedUnread(said)
}

function refusalFrom(outcome: PostOutcome): LossEvidence | undefined {
  const rest = { challenged: false, unproven: false }
  if (outcome.kind === 'answered') {
    const { answer, status, errorId } = outcome
    if ('result' in answer) return undefined
    return { status, code: answer.error.code, text: answer.error.message, errorId, ...rest }
  }
  const { status, bodyText = '' } = outcome.error
  const errorId = outcome.kind === 'refused' ? outcome.errorId : 'own'
  // The text may be cut off, so the id comes from the complete body.
  return status === undefined ? undefined : { status, ...parseEvidence(bodyText), errorId, ...rest }
}

/** Reserved keys of `_meta` (2026-07-28, basic). */
export const META = {
  protocolVersion: 'io.modelcontextprotocol/protocolVersion',
  clientCapabilities: 'io.modelcontextprotocol/clientCapabilities',
  clientInfo: 'io.modelcontextprotocol/clientInfo',
  logLevel: 'io.modelcontextprotocol/logLevel',
} as const

/** Description of the client in every request. A stateless server does not remember it. */
export interface ClientIdentity {
  readonly protocolVersion: string
  readonly capabilities: Readonly<Record<string, unknown>>
  /** The same as `_meta`, with the minimum level of `notifications/message` if the client has set one. */
  readonly meta: Readonly<Record<string, unknown>>
}

/** Returns whether the client declares the extension for tasks, in every request. */
export function declaresTasks({ capabilities: { extensions } }: ClientIdentity): boolean {
  return isRecord(extensions) && isRecord(extensions[TASKS_EXTENSION])
}

/** Returns the identity from the client's `initialize`, without fields that this revision does not have. */
export function toIdentity(initialize: JsonRpcRequest, protocolVersion: string): ClientIdentity {
  const { capabilities: given, clientInfo } = initialize.params ?? {}
  const { tasks: _tasks, roots, ...kept } = isRecord(given) ? given : {}
  const capabilities = { ...kept, ...(isRecord(roots) ? { roots: {} } : {}) }
  const meta = {
    [META.protocolVersion]: protocolVersion,
    [META.clientCapabilities]: capabilities,
    ...(clientInfo === undefined ? {} : { [META.clientInfo]: clientInfo }),
  }
  return { protocolVersion, capabilities, meta }
}

/** Adds the identity to the parameters of a request. */
export function withIdentity(
  params: Readonly<Record<string, unknown>> | undefined,
  { meta }: Pick<ClientIdentity, 'meta'>,
): Record<string, unknown> {
  const given = params?.['_meta']
  return { ...params, _meta: isRecord(given) ? { ...given, ...meta } : meta }
}

/** Parameter that `Mcp-Name` repeats, by method. */
const NAMED_BY: Readonly<Record<string, string>> = {
  'tools/call': 'name',
  'prompts/get': 'name',
  'resources/read': 'uri',
  'tasks/get': 'taskId',
  'tasks/update': 'taskId',
  'tasks/cancel': 'taskId',
}

/**
 * Returns the headers of a request, as a flat list. They repeat parts of the body, so that gateways need not parse it.
 *
 * @param added Other headers
 */
export function modernHeaders(request: JsonRpcRequest, added: readonly string[] = []): string[] {
  const { method, params } = request
  const version = versionOf(request) ?? ''
  const name = params?.[NAMED_BY[method] ?? '']
  const headers = [...POST_HEADERS, 'mcp-protocol-version', version, 'mcp-method', method]
  if (typeof name === 'string') headers.push('mcp-name', encodeHeaderValue(name))
  return added.length === 0 ? headers : headers.concat(added)
}
