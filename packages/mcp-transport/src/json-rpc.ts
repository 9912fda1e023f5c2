import { isRecord } from '@x/internal'

export { isRecord as isObject } // src/auth imports it under this name

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
