/** A JSON-RPC error, as the body of an answer. */
export interface RpcError {
  readonly code: number
  readonly message: string
  readonly data?: unknown
}

/** An HTTP answer that refuses a request before the protocol has seen it. Its id is unknown, so `null`. */
export function rpcErrorResponse(
  status: number,
  error: RpcError,
  headers?: Readonly<Record<string, string>>,
): Response {
  return Response.json(
    { jsonrpc: '2.0', error, id: null },
    headers ? { status, headers } : { status },
  )
}

/** Codes of the transport (specification 2025-11-25, "Transports"), beside those of JSON-RPC. */
export const RPC = {
  parseError: -32_700,
  internalError: -32_603,
  refused: -32_000,
  sessionNotFound: -32_001,
} as const
