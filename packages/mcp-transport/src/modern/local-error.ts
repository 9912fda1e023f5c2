import type { JsonRpcError, RequestId } from '../json-rpc.ts'

/** Codes of answers that the transport gives itself, because the wire has no place for the question. */
export const METHOD_NOT_FOUND = -32601
export const INVALID_PARAMS = -32602
export const INTERNAL_ERROR = -32603

export function localError(id: RequestId, code: number, message: string): JsonRpcError {
  return { jsonrpc: '2.0', id, error: { code, message } }
}
