import type { CallToolResult } from '@modelcontextprotocol/server'

import type { RunFailureReason } from '../../internal/run-event.ts'

/** A call that came to no run, as a result that the model can read. */
export function toolError(reason: RunFailureReason, text: string): CallToolResult {
  return { content: [{ type: 'text', text }], isError: true, _meta: { reason } }
}
