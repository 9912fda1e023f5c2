import { isRecord } from '@x/internal'

/** JSON-RPC ids as MCP allows them. */
export type RequestId = string | number

export interface JsonRpcRequest {
  readonly jsonrpc: '2.0'
  readonly id: RequestId
  readonly method: string
  readonly params?: Readonly<Record<string, unknown>> | undefined
}

export interface JsonRpcNotification {
  readonly jsonrpc: '2.0'
  readonly method: string
  readonly params?: Readonly<Record<string, unknown>> | undefined
}

export interface JsonRpcResult {
  readonly jsonrpc: '2.0'
  readonly id: RequestId
  readonly result: Readonly<Record<string, unknown>>
}

export interface JsonRpcError {
  readonly jsonrpc: '2.0'
  /** Absent or null where the server could not tell which request failed. */
  readonly id?: RequestId | null | undefined
  readonly error: { readonly code: number; readonly message: string; readonly data?: unknown }
}

export type JsonRpcResponse = JsonRpcResult | JsonRpcError
export type JsonRpcMessage = JsonRpcRequest | JsonRpcNotification | JsonRpcResponse

/**
 * A value as one message of JSON-RPC 2.0; undefined if it is none. Only its shape is checked, by hand: the client above checks every field with its own schemas,
 * and a second full check here would cost more than the parsing.
 */
export function messageFrom(value: unknown): JsonRpcMessage | undefined {
  return isMessage(value) ? value : undefined
}

function isMessage(value: unknown): value is JsonRpcMessage {
  if (!isRecord(value) || value['jsonrpc'] !== '2.0') return false
  if (typeof value['method'] === 'string') {
    return isIdOrAbsent(value['id']) && (value['params'] === undefined || isRecord(value['params']))
  }
  const hasResult = isRecord(value['result'])
  if (isErrorObject(value['error'])) {
    return !hasResult && (value['id'] === null || isIdOrAbsent(value['id']))
  }
  return hasResult && value['id'] !== undefined && isIdOrAbsent(value['id'])
}

export function isRequest(message: JsonRpcMessage): message is JsonRpcRequest {
  return 'method' in message && 'id' in message
}

export function isNotification(message: JsonRpcMessage): message is JsonRpcNotification {
  return 'method' in message && !('id' in message)
}

export function isResponse(message: JsonRpcMessage): message is JsonRpcResponse {
  return !('method' in message)
}

/**
 * Whether a message on the response to a request answers that request. Ids are compared as text, because some
 * servers send `"1"` for `1`. An error without an id belongs to the request on whose response it comes: the
 * server could not read the request.
 */
export function isAnswerTo(id: RequestId, { id: given }: JsonRpcResponse): boolean {
  return given === undefined || given === null || String(given) === String(id)
}

function isErrorObject(value: unknown): value is JsonRpcError['error'] {
  return (
    isRecord(value) && typeof value['code'] === 'number' && typeof value['message'] === 'string'
  )
}

function isIdOrAbsent(value: unknown): value is RequestId | undefined {
  return value === undefined || typeof value === 'string' || typeof value === 'number'
}

/** A request that a server embeds in a result: it needs an answer before it can go on. */
export interface InputRequest {
  readonly method: string
  readonly params?: Readonly<Record<string, unknown>> | undefined
}

/** A result that is not one yet (2026-07-28, basic/patterns/mrtr). */
export interface InputRequired {
  readonly inputRequests?: Readonly<Record<string, InputRequest>> | undefined
  /** Opaque; goes back byte for byte, if and only if it was given. */
  readonly requestState?: string | undefined
}

/** The answers to an `InputRequired`, by the keys of its requests. */
export interface InputAnswers {
  readonly inputResponses?: Readonly<Record<string, unknown>> | undefined
  readonly requestState?: string | undefined
}

/** Codes of answers that the transport gives itself, because the wire has no place for the question. */
export const METHOD_NOT_FOUND = -32601
export const INVALID_PARAMS = -32602
export const INTERNAL_ERROR = -32603

export function localError(id: RequestId, code: number, message: string): JsonRpcError {
  return { jsonrpc: '2.0', id, error: { code, message } }
}

/** The lists whose changes a server tells, or is asked to tell. */
export interface ListChanges {
  readonly toolsListChanged?: true | undefined
  readonly promptsListChanged?: true | undefined
  readonly resourcesListChanged?: true | undefined
}

const LISTS = [
  ['tools', 'toolsListChanged', 'notifications/tools/list_changed'],
  ['prompts', 'promptsListChanged', 'notifications/prompts/list_changed'],
  ['resources', 'resourcesListChanged', 'notifications/resources/list_changed'],
] as const

/** The list changes that a server advertises. */
export function advertisedChanges(capabilities: Readonly<Record<string, unknown>>): ListChanges {
  const changes: Record<string, true> = {}
  for (const [capability, change] of LISTS) {
    const advertised = capabilities[capability]
    if (isRecord(advertised) && advertised['listChanged'] === true) changes[change] = true
  }
  return changes
}

/** One notification for each list: stands for all changes of it that were missed while no stream stood. */
export function listChangesFor(changes: ListChanges): readonly JsonRpcNotification[] {
  return LISTS.filter(([, change]) => changes[change] === true).map(([, , method]) => ({
    jsonrpc: '2.0',
    method,
  }))
}

/** The caller's place in a distributed trace (W3C Trace Context). */
export interface TraceContext {
  readonly traceparent: string
  readonly tracestate?: string | undefined
}

/** The message with the trace in its `_meta`, where servers look for it; one that is there already stays. */
export function withTraceContext(
  message: JsonRpcMessage,
  trace: TraceContext | undefined,
): JsonRpcMessage {
  if (trace === undefined || !('method' in message)) return message
  const given = message.params?.['_meta']
  const meta = isRecord(given) ? given : {}
  if (meta['traceparent'] !== undefined) return message
  const { traceparent, tracestate } = trace
  const added = { traceparent, ...(tracestate === undefined ? {} : { tracestate }) }
  return { ...message, params: { ...message.params, _meta: { ...meta, ...added } } }
}
