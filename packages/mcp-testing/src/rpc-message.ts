import { isRecord } from '@x/internal'

/** Id of a JSON-RPC message; `null` where an error belongs to no request. */
export type RpcId = string | number | null

/** Members of a JSON-RPC message that servers and the proxy read. */
export interface RpcMessage {
  readonly id: RpcId | undefined
  /** Absent in an answer. */
  readonly method: string | undefined
  readonly params: Readonly<Record<string, unknown>> | undefined
  /** Only in an answer. */
  readonly result: unknown
  /** Only in an answer. */
  readonly error: unknown
}

/** The JSON-RPC message in `text`; `undefined` for anything else, batches included. */
export function rpcMessageFrom(text: string): RpcMessage | undefined {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return undefined
  }
  if (!isRecord(value) || value['jsonrpc'] !== '2.0') return undefined
  const { id, method, params, result, error } = value
  return {
    id: typeof id === 'string' || typeof id === 'number' || id === null ? id : undefined,
    method: typeof method === 'string' ? method : undefined,
    params: isRecord(params) ? params : undefined,
    result,
    error,
  }
}

/** A JSON-RPC error as JSON. */
export function rpcError(code: number, message: string, id: RpcId = null): string {
  return JSON.stringify({ jsonrpc: '2.0', error: { code, message }, id })
}
