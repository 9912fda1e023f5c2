import type { JsonRpcError, RequestId } from './json-rpc.ts'
import type { TransportError } from './transport-error.ts'

/**
 * How a failed request reaches the client: as an error answer, so that the client settles the request
 * and forgets it (a rejected `send()` would leak its handler). `data` is the `TransportError` itself.
 */
export function errorAnswer(id: RequestId, error: TransportError): JsonRpcError {
  const code = error.serverError?.code ?? -32000
  return { jsonrpc: '2.0', id, error: { code, message: error.message, data: error } }
}
