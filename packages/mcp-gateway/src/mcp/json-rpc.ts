import { ProtocolError, RELATED_TASK_META_KEY, type RequestId } from '@modelcontextprotocol/server'
import { isRecord } from '@x/internal'

import { toCallError, type CallError } from '../runs/call-record.ts'

export type Params = Readonly<Record<string, unknown>>

export interface RpcNotification {
  readonly jsonrpc: '2.0'
  readonly method: string
  readonly params?: Params | undefined
}

export interface RpcRequest extends RpcNotification {
  readonly id: RequestId
}

export interface RpcResponse {
  readonly jsonrpc: '2.0'
  readonly id: RequestId
  readonly result?: Params
  readonly error?: CallError
}

export type RpcMessage = RpcRequest | RpcNotification | RpcResponse

/** Error codes of JSON-RPC, and those of the transport (specification 2025-11-25, "Transports"). */
export const RPC_ERROR = {
  parseError: -32_700,
  invalidRequest: -32_600,
  methodNotFound: -32_601,
  invalidParams: -32_602,
  internalError: -32_603,
  refused: -32_000,
  sessionNotFound: -32_001,
} as const

const REQUEST_KEYS = new Set(['jsonrpc', 'id', 'method', 'params'])
const RESPONSE_KEYS = new Set(['jsonrpc', 'id', 'result', 'error'])

export function isRequest(message: RpcMessage): message is RpcRequest {
  return 'method' in message && 'id' in message
}

export function isResponse(message: RpcMessage): message is RpcResponse {
  return !('method' in message)
}

/** Returns the id of the request that `notifications/cancelled` names. `undefined` for other messages. */
export function cancelledId(message: unknown): RequestId | undefined {
  if (methodOf(message) !== 'notifications/cancelled' || !isRecord(message)) return undefined
  const { params } = message
  const id = isRecord(params) ? params['requestId'] : undefined
  return isRequestId(id) ? id : undefined
}

/** Returns the error response for what a handler threw. Unexpected errors show no detail to the client. */
export function toErrorResponse(id: RequestId, error: unknown): RpcResponse {
  return { jsonrpc: '2.0', id, error: toCallError(error) }
}

export function invalidParams(message: string, data?: unknown): ProtocolError {
  return new ProtocolError(RPC_ERROR.invalidParams, message, data)
}

export function methodNotFound(): ProtocolError {
  return new ProtocolError(RPC_ERROR.methodNotFound, 'Method not found')
}

export function isRequestId(value: unknown): value is RequestId {
  return typeof value === 'string' || Number.isSafeInteger(value)
}

/** Returns the method of a message that was not checked. `undefined` if it has none. */
export function methodOf(message: unknown): string | undefined {
  if (!isRecord(message)) return undefined
  return typeof message['method'] === 'string' ? message['method'] : undefined
}

export function paramsOf(message: unknown): Params {
  return isRecord(message) && isRecord(message['params']) ? message['params'] : {}
}

export function isAnyRequest(body: unknown): boolean {
  return isRecord(body) && 'method' in body && 'id' in body
}

/** Returns whether the body of a POST is one message of JSON-RPC. */
export function isMessage(value: unknown): value is RpcMessage {
  if (!isRecord(value) || value['jsonrpc'] !== '2.0') return false
  const { error, id, method, params, result } = value
  const keys = method === undefined ? RESPONSE_KEYS : REQUEST_KEYS
  for (const key in value) if (!keys.has(key)) return false
  if (method === undefined) {
    const isError =
      isRecord(error) && Number.isSafeInteger(error['code']) && typeof error['message'] === 'string'
    return (
      (isRequestId(id) || (id === undefined && result === undefined)) &&
      (result === undefined ? isError : isRecord(result))
    )
  }
  return (
    typeof method === 'string' &&
    (!('id' in value) || isRequestId(id)) &&
    (params === undefined || (isRecord(params) && !hasWrongMeta(params)))
  )
}

function hasWrongMeta({ _meta: meta }: Params): boolean {
  if (meta === undefined) return false
  if (!isRecord(meta)) return true
  const { progressToken, [RELATED_TASK_META_KEY]: task } = meta
  return (
    (progressToken !== undefined && !isRequestId(progressToken)) ||
    (task !== undefined && !(isRecord(task) && typeof task['taskId'] === 'string'))
  )
}
