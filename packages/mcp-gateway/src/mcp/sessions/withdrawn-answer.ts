import type { JSONRPCErrorResponse, RequestId } from '@modelcontextprotocol/server'
import { isRecord } from '@x/internal'

/** As in the Language Server Protocol, "RequestCancelled"; MCP has no code, since nobody is sent one. */
const CANCELLED = -32_800

/**
 * What is kept in place of an answer that its client does not want any more (specification 2025-11-25,
 * "Cancellation"). It is never sent: it says to whoever reads the stream elsewhere that nothing is missing.
 */
export function withdrawnAnswer(id: RequestId): JSONRPCErrorResponse & { readonly id: RequestId } {
  return { jsonrpc: '2.0', id, error: { code: CANCELLED, message: 'Cancelled by its client' } }
}

export function isWithdrawn(event: unknown): boolean {
  return isRecord(event) && isRecord(event['error']) && event['error']['code'] === CANCELLED
}
